"""Runs on the workers of a dask.distributed scheduler."""
