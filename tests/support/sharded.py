"""Shards of a sweep with made-up runs, and their merge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import records as made

from normexp.config.plan import Plan, Shard
from normexp.config.run import RunConfig
from normexp.records.record import RunRecord
from normexp.runner.merge import Merged, merge
from normexp.storage.store import Store

SHARDS = [Shard(1, 3), Shard(2, 3), Shard(3, 3)]
ARGV = ("/bin/normexp", "sweep", "configs/a b.yaml", "--shard", "1/3", "--jobs", "2")


def twelve_runs() -> Plan:
    return made.plan({"lr": [1e-3, 1e-2], "seed": [0, 1, 2, 3, 4, 5]}, depth=2)


def record(config: RunConfig, **rest: object) -> RunRecord:
    return made.dead(config, 7, **rest) if config.lr == 1e-2 and config.seed == 0 else made.done(config, 2.0, **rest)


def filled(out: Path, plan: Plan, name: str | None = None, **rest: object) -> Store:
    """Store all runs of a plan, without tables."""
    store = Store(out / (name or plan.folder))
    store.begin(plan, ARGV, force=False)
    for config in plan.configs.values():
        store.write(record(config, **rest))
    return store


def joined(stores: Sequence[Store], out: Path | None = None) -> Merged:
    return merge([store.folder for store in stores], out, ("normexp", "merge"))


def files(folder: Path) -> dict[str, bytes]:
    """Return all files except the lock."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
