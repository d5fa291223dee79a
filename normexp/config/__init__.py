"""Configs: keys, runs and their ids, axes, grids, plans, and the YAML files that describe them."""
