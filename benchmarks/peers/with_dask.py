"""Dask as an executor of normexp's runs: python with_dask.py RUNS DEPTH STEPS, with normexp on PYTHONPATH.

A local cluster of two processes with one thread each, as Dask sets it up. Prints the seconds of the runs alone, once
each worker has done a small one.
"""

from __future__ import annotations

import sys
import time

from distributed import Client, LocalCluster

from normexp.config.run import RunConfig
from normexp.execution.worker import Job
from normexp.records.record import RunRecord, Status


def train(config: RunConfig) -> RunRecord:
    """What a worker of normexp does."""
    return Job()(config, lambda progress: None)


def main() -> None:
    """Warm up, measure, print."""
    runs, depth, steps = map(int, sys.argv[1:])
    configs = [RunConfig(depth=depth, steps=steps, eval_every=steps, seed=seed) for seed in range(runs)]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(train, RunConfig(depth=1, steps=1))
        start = time.perf_counter()
        records = client.gather(client.map(train, configs, pure=False))
        took = time.perf_counter() - start
    if any(record.status is not Status.DONE for record in records):
        sys.exit("a run failed")
    print(took)


if __name__ == "__main__":
    main()
