"""Runs in a store, and what comes back of it, for the tests of `results/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import records as made

from normexp.analysis import frames
from normexp.analysis.cells import summarize
from normexp.analysis.conclusions import conclusion
from normexp.analysis.tables import pivot
from normexp.config.plan import Plan
from normexp.records.record import RunRecord
from normexp.report.contents import Report
from normexp.storage.store import Store


def write_all(store: Store, plan: Plan) -> dict[str, RunRecord]:
    """Every run of the fixture's plan: those without norm are dead."""
    records = {
        run_id: made.dead(config, 12) if config.norm == "none" else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    for record in records.values():
        store.write(record)
    return records


def saved(folder: Path, plan: Plan, ends: Sequence[str]) -> Store:
    """A results folder with these ends."""
    store = Store(folder / plan.folder)
    store.begin(plan, [], force=False)
    for record in made.ended(plan, ends).values():
        store.write(record)
    return store


def report_of(plan: Plan, records: Mapping[str, RunRecord], *warnings: str) -> Report:
    """Return the report of a plan with these records, without a folder."""
    runs = frames.runs(plan, records)
    return Report(
        plan=plan,
        records=records,
        runs=runs,
        summary=summarize(plan, runs),
        conclusion=conclusion(plan, runs),
        pivots=tuple(pivot(plan, runs)),
        warnings=warnings,
    )


def same(one: object, other: object) -> bool:
    """Equality in which NaN equals NaN."""
    return repr(one) == repr(other)


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")
