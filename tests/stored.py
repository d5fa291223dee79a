"""Runs in a store, and what comes back of it, for the tests of `results/`."""

from __future__ import annotations

import records as made

from normexp.plan import Plan
from normexp.record import RunRecord
from normexp.results.store import Store


def write_all(store: Store, plan: Plan) -> dict[str, RunRecord]:
    """Every run of the fixture's plan: those without norm are dead."""
    records = {
        run_id: made.dead(config, 12) if config.norm == "none" else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    for record in records.values():
        store.write(record)
    return records


def same(one: object, other: object) -> bool:
    """Equality in which NaN equals NaN."""
    return repr(one) == repr(other)


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")
