"""The description of runs and sweeps: keys, one run and its identity, axes and grids, the plan, and the YAML that describes them."""
