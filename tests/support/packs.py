"""Packs carried to another machine, and rows as a pack keeps them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stored import saved

from normexp.config.plan import Plan
from normexp.records.record import CurveRow, SignalRow, Status
from normexp.storage.store import PACK, Store


def ended(folder: Path, plan: Plan) -> Store:
    """A sweep with runs that learned, died and failed."""
    return saved(folder, plan, ("1.9", "2.5", "nan@12", Status.FAILED.value))


def plain(rows: Sequence[CurveRow] | Sequence[SignalRow]) -> list[str]:
    """Rows without what a pack leaves out; NaN equals NaN."""
    return [repr(replace(row, grad_norm=None) if isinstance(row, CurveRow) else row) for row in rows]


def carried(store: Store, tmp_path: Path) -> Path:
    """The pack alone, in the folder of another machine."""
    target = tmp_path / "there" / store.folder.name / PACK
    target.parent.mkdir(parents=True)
    shutil.copy(store.folder / PACK, target)
    return target


def copied(store: Store, plan: Plan) -> Store:
    """The same plan beside it, its runs copied as a sweep does."""
    other = Store(store.folder.parent / "other")
    other.begin(plan, ["sweep", "made_up.yaml"], force=False)
    for run_id in plan.configs:
        if (store.records()[run_id]).status is Status.DONE:
            other.copy_from(store, run_id)
    return other
