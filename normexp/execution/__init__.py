"""Executors, which start, watch and stop runs."""
