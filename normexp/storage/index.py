"""The results folder as a whole: its sweeps, and any run in them by its id."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from normexp.config.run import UnknownRow
from normexp.errors import UserError, at_most
from normexp.records.record import RunRecord
from normexp.storage import RESULTS, plugin_snapshots
from normexp.storage.files import folders_in, is_readable
from normexp.storage.store import PACK, RUN, RUNS, Store

UNUSABLE = "unusable"
"""A result of records that cannot be read, which count as pending."""
MOST_IDS = 10
"""Ids that are listed where a part of one fits several."""
Found = dict[str, tuple[Store, RunRecord]]
"""Run id to the sweep that holds it, and its record without traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """One sweep in a line: how many of its runs have ended and how, or the fault for which it cannot be read.

    `runs` is then None; `plugins` are the paths of those that it needs.
    """

    folder: str
    runs: int | None = None
    ended: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    fault: str = ""
    plugins: Sequence[str] = ()

    @property
    def told(self) -> str:
        """The results, most frequent first; or what it needs, or the fault."""
        if self.plugins:
            return f"needs {' '.join(f'--plugin {path}' for path in self.plugins)}"
        counted = ", ".join(f"{count} {word}" for word, count in self.results.items())
        why = " (`normexp report` of its folder tells why)" if UNUSABLE in self.results else ""
        return f"cannot be read: {self.fault}" if self.fault else counted + why


def sweeps(out: Path) -> Iterator[Store]:
    """Every sweep under a results folder, by name."""
    for folder in folders_in(out):
        store = Store(folder)
        if store.exists():
            yield store


def check(out: Path) -> None:
    """Raise UserError for a folder of results that is none, or not there, but for the one that the first run makes."""
    if os.path.exists(out) and not os.path.isdir(out):
        raise UserError(f"--out {out} is a file, not a folder of results")
    if out != RESULTS and not os.path.exists(out):
        raise UserError(f"--out {out}: no such folder")


def below(out: Path) -> list[Path]:
    """The folders in a results folder that are no sweeps, but hold some, or packs of some."""
    return [path for path in folders_in(out) if not Store(path).exists() and _holds(path)]


def _holds(folder: Path) -> bool:
    with suppress(UserError):
        return any(Store(path).exists() or is_readable(path / PACK) for path in folders_in(folder))
    return False


def packed(out: Path) -> list[Path]:
    """The folders in a results folder of which only the pack is there."""
    return [path for path in folders_in(out) if is_readable(path / PACK) and not Store(path).exists()]


def packs(folder: Path) -> list[Path]:
    """The pack of a sweep's folder, or those of the sweeps in a folder."""
    return [path for path in (folder / PACK, *sorted(folder.glob(f"*/{PACK}"))) if is_readable(path)]


def waiting(out: Path) -> list[Path]:
    """The packs that name a run which their folder lacks, whose folder has no manifest yet, or that are damaged."""
    return [path for path in packs(out) if _waits(path)]


def _waits(path: Path) -> bool:
    from normexp.storage.packs import named

    store = Store(path.parent)
    try:
        return not store.exists() or bool(named(path) - store.ended())
    except UserError:
        return True  # to restore it tells what is wrong with it


def records(out: Path) -> dict[str, RunRecord]:
    """Every run under a results folder by its id, without traces; of several records of one, a usable one.

    Sweeps that cannot be read are left out.
    """
    found: Found = {}
    for store in sweeps(out):
        with suppress(UserError):
            gather(found, store)
    return {run_id: record for run_id, (_, record) in found.items()}


def gather(found: Found, store: Store) -> None:
    """Add a sweep's runs; of several records of one run a usable one stays. Raises UserError."""
    for run_id, record in store.records().items():
        if run_id not in found or (record.usable and not found[run_id][1].usable):
            found[run_id] = store, record


def shelves(out: Path) -> list[SweepStatus]:
    """Every sweep in a line."""
    return [_shelf(store) for store in sweeps(out)]


def _shelf(store: Store) -> SweepStatus:
    name = store.folder.name
    try:
        plan, records = store.read_plan(), store.records()
    except UserError as fault:
        lacking = plugin_snapshots.not_given(store.folder) if isinstance(fault.__cause__, UnknownRow) else ()
        return SweepStatus(folder=name, ended=len(store.ended()), fault=fault.complaints[0], plugins=lacking)
    counts = Counter(record.result_word for record in records.values())
    results = dict(counts.most_common()) | ({UNUSABLE: len(store.warnings)} if store.warnings else {})
    return SweepStatus(folder=name, runs=len(plan.configs), ended=len(records), results=results)


def find(out: Path, name: str, *, sought: str = "run of that id", traces: bool = True) -> tuple[Store, RunRecord]:
    """A run, with its `traces` if asked, and the sweep that holds it: by its id or a part of it that no other has.

    The path of its folder names it in that sweep. Where several sweeps hold it, the first whose files are all sound, or
    else the first whose record can be read: what damaged files hold is then left out, and the sweep's warnings say so.
    `sought` is what there is none of, in what is told. Raises UserError.
    """
    path, name = Path(name), Path(name).name
    if path.parent.name == RUNS and is_readable(path / RUN):
        return _first([Store(path.parent.parent)], name, traces=traces)
    if not name:
        raise UserError("an empty run id: write the id of a run, or a part of one")
    matches = [(store, run_id) for store in sweeps(out) for run_id in store.ended() if name in run_id]
    ids = sorted({run_id for _, run_id in matches})
    if not ids:
        raise UserError(_unknown(out, path, sought))
    if len(ids) > 1 and name not in ids:
        homes = {key: [store.folder.name for store, run_id in matches if run_id == key] for key in ids[:MOST_IDS]}
        told = [f"{run_id} (in {', '.join(names)})" for run_id, names in homes.items()]
        raise UserError(f"{name} is part of {len(ids)} run ids:", *told, *at_most(ids, MOST_IDS)[len(told) :])
    run_id = name if name in ids else ids[0]
    return _first([store for store, its in matches if its == run_id], run_id, traces=traces)


def _first(holders: Iterable[Store], run_id: str, *, traces: bool) -> tuple[Store, RunRecord]:
    """The first sound record of a run, or else the first that can be read. Raises UserError where there is none."""
    readable: list[tuple[Store, RunRecord]] = []
    complaints: list[str] = []
    for store in holders:
        record = store.record(run_id)
        if record is not None and traces:
            record = replace(record, traces=store.sound_traces(run_id, record.result), log=store.log(run_id))
        if record is not None and not store.warnings:
            return store, record
        complaints += store.warnings
        readable += [] if record is None else [(store, record)]
    if not readable:
        raise UserError(*complaints)
    return readable[0]


def _unknown(out: Path, path: Path, sought: str) -> str:
    """What is told of a name that no run has. Raises UserError for a folder that is not what it should be."""
    check(out)
    for folder in (path, out / path):
        if os.path.isdir(folder):
            Store(folder).read_plan()
            return f"{folder} is a sweep: name one of its runs, which stand in {folder / RUNS}"
    more = "".join(f"; others are in {place}: --out {place}" for place in below(out))
    return f"{path.name}: no {sought} under {out}; `normexp list` names the sweeps there{more}"
