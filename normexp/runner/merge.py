"""Merge folders of one sweep, such as its shards. No result is overwritten by a different one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from normexp.analysis import differences
from normexp.config.labels import plural
from normexp.config.plan import Plan
from normexp.errors import EXIT_RUNS_FAILED, UserError, at_most
from normexp.execution.signals import Stopped, stoppable
from normexp.records.record import RunRecord, Status
from normexp.report import report, shards
from normexp.report.contents import Report
from normexp.storage import index
from normexp.storage.lock import driver_lock
from normexp.storage.store import StorageError, Store

MOST_TOLD = 20
"""Largest number of conflicts that are listed."""

Sources = Mapping[Store, Plan]
"""Folders and their plans, in the order of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of a merge: the numbers of runs `copied` into the `store` and `kept` there.

    `report` is None if the merge was stopped. `messages` has the reason for that, or names the missing runs.
    """

    store: Store
    report: Report | None
    copied: int
    kept: int
    exit_code: int
    messages: Sequence[str]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Copy:
    """One stored copy of a run: its record without traces, and its folder."""

    store: Store
    record: RunRecord

    @property
    def rank(self) -> tuple[bool, int]:
        """Rank by which copies are chosen: done before failed, then recent before outdated numerics."""
        return self.record.status is Status.DONE, self.record.numerics


def merge(folders: Sequence[Path], out: Path | None, argv: Sequence[str]) -> Merged:
    """Merge folders into `out`, by default the folder of the complete sweep beside the first.

    Raises UserError, and writes nothing, if a folder is not a sweep's or is in use, if the folders belong to different
    sweeps, or if two results of one run differ.
    """
    sources = _read(folders)
    plan = next(iter(sources.values()))
    whole = plan.whole or plan
    target = Store(out if out is not None else next(iter(sources)).folder.parent / whole.folder)
    sources = _without_target(sources, target)
    with stoppable(), ExitStack() as held:
        there = target.exists()
        if there:
            held.enter_context(target.lock())
        for store in sources:
            _hold(store, held)
        stores = [target, *sources] if there else list(sources)
        copies = _best_copies(whole, stores)
        warnings = [warning for store in stores for warning in store.warnings]
        copies = _readable_copies(copies, warnings)
        if not there:
            held.enter_context(target.lock())
        target.begin(whole, argv, force=False)
        return _join(target, sources, copies, warnings)


def _join(target: Store, sources: Sources, copies_by_run: Mapping[str, list[Copy]], warnings: list[str]) -> Merged:
    copied = kept = 0
    try:
        for run_id, copies in copies_by_run.items():
            if copies and copies[0].store is target:
                kept += 1
            else:
                copied += _store_first_readable(run_id, copies, target, warnings)
        merged_report = report.rebuild(target, figures=True)
    except (Stopped, StorageError) as fault:
        stopped = isinstance(fault, Stopped)
        why = f"stopped by {fault}" if stopped else str(fault)
        return Merged(
            store=target,
            report=None,
            copied=copied,
            kept=kept,
            exit_code=fault.exit_code if isinstance(fault, Stopped) else EXIT_RUNS_FAILED,
            messages=[
                f"{why}: {copied + kept} of {plural(len(copies_by_run), 'run')} merged; the same command continues"
            ],
            warnings=warnings,
        )
    missing = shards.missing(merged_report.plan, merged_report.records, list(sources.values()))
    return Merged(
        store=target,
        report=merged_report,
        copied=copied,
        kept=kept,
        exit_code=EXIT_RUNS_FAILED if missing else merged_report.exit_code,
        messages=missing,
        warnings=warnings,
    )


def _read(folders: Sequence[Path]) -> dict[Store, Plan]:
    """Return each distinct folder with its plan. Raises UserError for unreadable folders and different sweeps."""
    distinct = {folder.resolve(): folder for folder in reversed(folders)}
    plans: dict[Store, Plan] = {}
    complaints: list[str] = []
    for folder in reversed(distinct.values()):
        try:
            if index.waiting(folder):
                raise UserError(f"{folder} has packed runs: restore them with `normexp unpack {folder}`")
            store = Store(folder)
            plans[store] = store.read_plan()
        except UserError as fault:
            complaints += fault.complaints
    if complaints:
        raise UserError(*complaints)
    first = next(iter(plans))
    for store, plan in plans.items():
        _refuse_other_sweep(first, plans[first], store, plan)
    return plans


def _refuse_other_sweep(first: Store, first_plan: Plan, second: Store, second_plan: Plan) -> None:
    different = differences.of_sweeps(first_plan, second_plan, (str(first.folder), str(second.folder)))
    if different:
        advice = "merge only folders of one sweep: rerun the command of the older one with the current config"
        raise UserError(f"{first.folder} and {second.folder} belong to different sweeps:", *different, advice)


def _without_target(sources: dict[Store, Plan], target: Store) -> dict[Store, Plan]:
    """Return the sources other than the target.

    Raises UserError if none is left, or if the target is a shard or belongs to another sweep.
    """
    path = target.folder.resolve()
    others = {store: plan for store, plan in sources.items() if store.folder.resolve() != path}
    if target.exists():
        plan, (first, first_plan) = target.read_plan(), next(iter(sources.items()))
        if plan.shard is not None:
            raise UserError(f"--out {target.folder} is only {plan.shard}: merge into another folder")
        _refuse_other_sweep(first, first_plan, target, plan)
    if not others:
        raise UserError(f"--out {target.folder} is the only folder to merge: name folders to merge into it")
    return others


def _hold(store: Store, held: ExitStack) -> None:
    """Lock a folder while it is read. Raises UserError if it is in use."""
    try:
        held.enter_context(driver_lock(store.folder))
    except StorageError:
        return  # a read-only folder needs no lock: no driver can write to it


def _best_copies(whole: Plan, stores: Sequence[Store]) -> dict[str, list[Copy]]:
    """Return the copies of the highest rank of each stored run."""
    records_by_store = [(store, store.records()) for store in stores]
    best_copies: dict[str, list[Copy]] = {}
    for run_id in whole.configs:
        copies = [Copy(store, records[run_id]) for store, records in records_by_store if run_id in records]
        if copies:
            best = max(copy.rank for copy in copies)
            best_copies[run_id] = [copy for copy in copies if copy.rank == best]
    return best_copies


def _readable_copies(copies_by_run: Mapping[str, Sequence[Copy]], warnings: list[str]) -> dict[str, list[Copy]]:
    """Return the readable copies of each run, those with weights first. Raises UserError if their results differ."""
    readable: dict[str, list[Copy]] = {}
    conflicts: list[str] = []
    for run_id, copies in copies_by_run.items():
        readable[run_id] = sorted(copies, key=lambda copy: not copy.store.has_weights(run_id))
        if len(copies) > 1 and copies[0].record.status is Status.DONE:
            records = [(copy, _read_complete(run_id, copy, warnings)) for copy in readable[run_id]]
            complete = [(copy, record) for copy, record in records if record is not None]
            readable[run_id] = [copy for copy, _ in complete]
            for copy, record in complete[1:]:
                difference = differences.of_runs(complete[0][1], record)
                if difference:
                    folders = f"{complete[0][0].store.folder} and {copy.store.folder}"
                    conflicts.append(f"  {run_id} in {folders}: {difference}")
    if conflicts:
        raise UserError(
            "nothing was merged: these runs have different results in two folders:",
            *at_most(conflicts, MOST_TOLD, "  and {} more"),
            "leave out the wrong folder: `normexp repro` shows the result of a run on this machine",
        )
    return readable


def _store_first_readable(run_id: str, copies: Sequence[Copy], target: Store, warnings: list[str]) -> bool:
    """Store the first complete copy in the target, and return whether there is one. Raises StorageError."""
    for copy in copies:
        record = _read_complete(run_id, copy, warnings)
        if record is not None:
            target.write(replace(record, weights=_weights(run_id, copy.store, warnings)))
            return True
    return False


def _weights(run_id: str, store: Store, warnings: list[str]) -> bytes | None:
    """Return the weights of a run, or None if there are none or (with a warning) if they are damaged."""
    try:
        return store.weights(run_id)[1] if store.has_weights(run_id) else None
    except UserError as fault:
        warnings += [f"{complaint}: the run is merged without them" for complaint in fault.complaints]
        return None


def _read_complete(run_id: str, copy: Copy, warnings: list[str]) -> RunRecord | None:
    """Return a record with its traces, or None with a warning if they cannot be used."""
    try:
        record = copy.store.read(run_id)
        if record is not None and record.status is Status.DONE and not (record.traces and record.traces.curve):
            raise UserError(f"{run_id} in {copy.store.folder} has no curve")
    except UserError as fault:
        warnings += [f"{complaint}: this copy is not merged" for complaint in fault.complaints]
        return None
    return record
