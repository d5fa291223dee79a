"""The dask executor: runs on the workers of a dask.distributed scheduler."""
