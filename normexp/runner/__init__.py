"""Execution of plans: select the missing runs, run and store them, and report the sweep."""
