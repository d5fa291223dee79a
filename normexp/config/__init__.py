"""What is asked for: keys, a run and its identity, axes, grids, the plan, and the YAML that describes them."""
