"""The results folder as a whole: its sweeps, and any run in them by its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from normexp.errors import UserError
from normexp.results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One sweep in a line: how many of its runs have ended, and how."""

    folder: str
    title: str
    runs: int
    ended: int
    results: Counter[str]


def sweeps(out: Path) -> Iterator[Store]:
    """Every sweep under a results folder, by name."""
    for folder in sorted(out.iterdir()) if out.is_dir() else []:
        store = Store(folder)
        if store.exists():
            yield store


def shelves(out: Path) -> list[Shelf]:
    """Every sweep in a line; a folder whose manifest is broken is left out."""
    found = []
    for store in sweeps(out):
        try:
            plan, records = store.read_plan(), store.records()
        except UserError:
            continue
        results = Counter(record.result_word for record in records.values())
        shelf = Shelf(
            folder=store.folder.name, title=plan.title, runs=len(plan.configs), ended=len(records), results=results
        )
        found.append(shelf)
    return found


def find(out: Path, name: str) -> tuple[Store, str]:
    """The sweep and id of a run, by its id or any part that only one has. Raises UserError."""
    matches = [(store, run_id) for store in sweeps(out) for run_id in store.ended() if name in run_id]
    exact = [match for match in matches if match[1] == name]
    ids = sorted({run_id for _, run_id in matches})
    if not ids:
        raise UserError(f"{name}: no run of that id under {out}; `normexp list` names the sweeps there")
    if len(ids) > 1 and not exact:
        raise UserError(f"{name} is part of {len(ids)} run ids:", *ids[:10])
    return (exact or matches)[0]
