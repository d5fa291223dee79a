"""Find sweeps, packs and runs in a results folder."""

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
"""Shown for records that cannot be read. Their runs count as pending."""
MOST_IDS = 10
"""Largest number of ids that are listed for an ambiguous part of an id."""
Found = dict[str, tuple[Store, RunRecord]]
"""Run id to its sweep and its record without traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """The progress of one sweep: numbers of planned and finished runs, and their results.

    If the sweep cannot be read, `runs` is None and `fault` is the reason; `plugins` are the paths of missing plugins.
    """

    folder: str
    runs: int | None = None
    ended: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    fault: str = ""
    plugins: Sequence[str] = ()

    @property
    def summary(self) -> str:
        """The results as text, most frequent first, or the missing plugins or the fault."""
        if self.plugins:
            return f"needs {' '.join(f'--plugin {path}' for path in self.plugins)}"
        counts = ", ".join(f"{count} {word}" for word, count in self.results.items())
        hint = " (`normexp report` of its folder shows why)" if UNUSABLE in self.results else ""
        return f"cannot be read: {self.fault}" if self.fault else counts + hint


def sweeps(out: Path) -> Iterator[Store]:
    """Yield the sweeps in a results folder, sorted by name."""
    for folder in folders_in(out):
        store = Store(folder)
        if store.exists():
            yield store


def check(out: Path) -> None:
    """Raise UserError if the results folder is a file or does not exist. The default folder need not exist."""
    if os.path.exists(out) and not os.path.isdir(out):
        raise UserError(f"--out {out} is a file, not a results folder")
    if out != RESULTS and not os.path.exists(out):
        raise UserError(f"--out {out}: no such folder")


def below(out: Path) -> list[Path]:
    """Return the folders in a results folder that are not sweeps but contain sweeps or packs."""
    return [path for path in folders_in(out) if not Store(path).exists() and _contains_sweeps(path)]


def _contains_sweeps(folder: Path) -> bool:
    with suppress(UserError):
        return any(Store(path).exists() or is_readable(path / PACK) for path in folders_in(folder))
    return False


def packed(out: Path) -> list[Path]:
    """Return the folders in a results folder that contain only a pack."""
    return [path for path in folders_in(out) if is_readable(path / PACK) and not Store(path).exists()]


def packs(folder: Path) -> list[Path]:
    """Return the pack in a folder and those in its subfolders."""
    return [path for path in (folder / PACK, *sorted(folder.glob(f"*/{PACK}"))) if is_readable(path)]


def waiting(out: Path) -> list[Path]:
    """Return the packs that must be restored: their folder lacks a run or the manifest. Includes damaged packs."""
    return [path for path in packs(out) if _is_waiting(path)]


def _is_waiting(path: Path) -> bool:
    from normexp.storage.packs import named

    store = Store(path.parent)
    try:
        return not store.exists() or bool(named(path) - store.ended())
    except UserError:
        return True  # restoring it will report the damage


def records(out: Path) -> dict[str, RunRecord]:
    """Return all records in a results folder by run id, without traces. Of several records of a run, a usable one wins.

    Sweeps that cannot be read are skipped.
    """
    found: Found = {}
    for store in sweeps(out):
        with suppress(UserError):
            gather(found, store)
    return {run_id: record for run_id, (_, record) in found.items()}


def gather(found: Found, store: Store) -> None:
    """Add a sweep's records to `found`. Of several records of a run, a usable one wins. Raises UserError."""
    for run_id, record in store.records().items():
        if run_id not in found or (record.usable and not found[run_id][1].usable):
            found[run_id] = store, record


def statuses(out: Path) -> list[SweepStatus]:
    """Return the progress of every sweep in a results folder."""
    return [_status(store) for store in sweeps(out)]


def _status(store: Store) -> SweepStatus:
    name = store.folder.name
    try:
        plan, records = store.read_plan(), store.records()
    except UserError as fault:
        missing = plugin_snapshots.not_given(store.folder) if isinstance(fault.__cause__, UnknownRow) else ()
        return SweepStatus(folder=name, ended=len(store.ended()), fault=fault.complaints[0], plugins=missing)
    counts = Counter(record.result_word for record in records.values())
    results = dict(counts.most_common()) | ({UNUSABLE: len(store.warnings)} if store.warnings else {})
    return SweepStatus(folder=name, runs=len(plan.configs), ended=len(records), results=results)


def find(out: Path, name: str, *, sought: str = "run with this id", traces: bool = True) -> tuple[Store, RunRecord]:
    """Return a run and its sweep, by run id, a unique part of one, or the path of the run's folder.

    If several sweeps contain the run, return the first copy without damaged files, or else the first readable record.
    Contents of damaged files are left out, with a warning of the store. With `traces`, the record includes traces and
    log. Raises UserError if there is no such run; `sought` names what was searched for in its message.
    """
    path, name = Path(name), Path(name).name
    if path.parent.name == RUNS and is_readable(path / RUN):
        return _first([Store(path.parent.parent)], name, traces=traces)
    if not name:
        raise UserError("empty run id: write the id of a run, or a part of one")
    matches = [(store, run_id) for store in sweeps(out) for run_id in store.ended() if name in run_id]
    ids = sorted({run_id for _, run_id in matches})
    if not ids:
        raise UserError(_unknown(out, path, sought))
    if len(ids) > 1 and name not in ids:
        sweeps_by_id = {
            key: [store.folder.name for store, run_id in matches if run_id == key] for key in ids[:MOST_IDS]
        }
        lines = [f"{run_id} (in {', '.join(names)})" for run_id, names in sweeps_by_id.items()]
        raise UserError(f"{name} is part of {len(ids)} run ids:", *lines, *at_most(ids, MOST_IDS)[len(lines) :])
    wanted = name if name in ids else ids[0]
    return _first([store for store, run_id in matches if run_id == wanted], wanted, traces=traces)


def _first(stores: Iterable[Store], run_id: str, *, traces: bool) -> tuple[Store, RunRecord]:
    """Return the first undamaged record of a run, or else the first readable one. Raises UserError without any."""
    readable: list[tuple[Store, RunRecord]] = []
    complaints: list[str] = []
    for store in stores:
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
    """Return the message for a name that no run has. Raises UserError for invalid folders."""
    check(out)
    for folder in (path, out / path):
        if os.path.isdir(folder):
            Store(folder).read_plan()
            return f"{folder} is a sweep: name one of its runs in {folder / RUNS}"
    more = "".join(f"; more sweeps are in {folder}: --out {folder}" for folder in below(out))
    return f"{path.name}: no {sought} under {out}; `normexp list` shows the sweeps there{more}"
