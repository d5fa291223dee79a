"""Folders of one sweep, shards or not, joined into one: every run once, and nothing overwritten by other numbers."""

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
"""Conflicts that are told one by one."""

Sources = Mapping[Store, Plan]
"""Folders and their plans, in the order in which they were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What has been joined: runs `copied` into the `store`, and those `kept` there as they were.

    `report` is None where the merge was stopped, and `told` then says so; else it says which runs are missing.
    """

    store: Store
    report: Report | None
    copied: int
    kept: int
    exit_code: int
    told: Sequence[str]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Found:
    """A record of a run, without traces, and the folder that has it."""

    store: Store
    record: RunRecord

    @property
    def rank(self) -> tuple[bool, int]:
        """Of two records, the one of higher rank counts: done before failed, this program's before an older one's."""
        return self.record.status is Status.DONE, self.record.numerics


def merge(folders: Sequence[Path], out: Path | None, argv: Sequence[str]) -> Merged:
    """Join folders into `out`, by default the folder of the whole sweep beside the first.

    Raises UserError, and writes nothing, where one is no results folder or in use, where they are not of one sweep, and
    where two have other numbers for one run.
    """
    sources = _read(folders)
    whole = _whole(next(iter(sources.values())))
    target = Store(out if out is not None else next(iter(sources)).folder.parent / whole.folder)
    sources = _without_target(sources, target)
    with stoppable(), ExitStack() as held:
        there = target.exists()
        if there:
            held.enter_context(target.lock())
        for store in sources:
            _hold(store, held)
        stores = [target, *sources] if there else list(sources)
        found = _found(whole, stores)
        warnings = [warning for store in stores for warning in store.warnings]
        alike = _agreeing(found, warnings)
        if not there:
            held.enter_context(target.lock())
        target.begin(whole, argv, force=False)
        return _join(target, sources, alike, warnings)


def _join(target: Store, sources: Sources, alike: Mapping[str, list[Found]], warnings: list[str]) -> Merged:
    copied = kept = 0
    try:
        for run_id, records in alike.items():
            if records and records[0].store is target:
                kept += 1
            else:
                copied += _copy(run_id, records, target, warnings)
        made = report.rebuild(target, figures=True)
    except (Stopped, StorageError) as fault:
        stopped = isinstance(fault, Stopped)
        why = f"stopped by {fault}" if stopped else str(fault)
        return Merged(
            store=target,
            report=None,
            copied=copied,
            kept=kept,
            exit_code=fault.exit_code if isinstance(fault, Stopped) else EXIT_RUNS_FAILED,
            told=[f"{why}: {copied + kept} of {plural(len(alike), 'run')} merged; the same command continues"],
            warnings=warnings,
        )
    told = shards.missing(made.plan, made.records, list(sources.values()))
    return Merged(
        store=target,
        report=made,
        copied=copied,
        kept=kept,
        exit_code=EXIT_RUNS_FAILED if told else made.exit_code,
        told=told,
        warnings=warnings,
    )


def _read(folders: Sequence[Path]) -> dict[Store, Plan]:
    """Each folder once, with its plan. Raises UserError for all that cannot be read, or are not of one sweep."""
    distinct = {folder.resolve(): folder for folder in reversed(folders)}
    plans: dict[Store, Plan] = {}
    complaints: list[str] = []
    for folder in reversed(distinct.values()):
        try:
            if index.waiting(folder):
                raise UserError(f"{folder} has runs in a pack alone: restore them with `normexp unpack {folder}`")
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


def _refuse_other_sweep(one: Store, plan: Plan, other: Store, its: Plan) -> None:
    different = differences.of_sweeps(plan, its, (str(one.folder), str(other.folder)))
    if different:
        advice = "only folders of one sweep are merged: run the older one's command again with today's config"
        raise UserError(f"{one.folder} and {other.folder} are not of one sweep:", *different, advice)


def _without_target(sources: dict[Store, Plan], target: Store) -> dict[Store, Plan]:
    """The folders without the target, which is of the same sweep, and no shard, if it is there. Raises UserError."""
    place = target.folder.resolve()
    others = {store: plan for store, plan in sources.items() if store.folder.resolve() != place}
    if target.exists():
        plan, (first, its) = target.read_plan(), next(iter(sources.items()))
        if plan.shard is not None:
            raise UserError(f"--out {target.folder} is {plan.shard} alone: merge into another folder")
        _refuse_other_sweep(first, its, target, plan)
    if not others:
        raise UserError(f"--out {target.folder} is the only folder to merge: name those that are to be joined with it")
    return others


def _hold(store: Store, held: ExitStack) -> None:
    """Keep drivers out of a folder while it is read. Raises UserError where one is at work there."""
    try:
        held.enter_context(driver_lock(store.folder))
    except StorageError:
        return  # it cannot be written, by drivers neither


def _found(whole: Plan, stores: Sequence[Store]) -> dict[str, list[Found]]:
    """Each run's records, those of the highest rank alone; a run without any is left out."""
    records = [(store, store.records()) for store in stores]
    found: dict[str, list[Found]] = {}
    for run_id in whole.configs:
        its = [Found(store, read[run_id]) for store, read in records if run_id in read]
        if its:
            best = max(each.rank for each in its)
            found[run_id] = [each for each in its if each.rank == best]
    return found


def _agreeing(found: Mapping[str, Sequence[Found]], warnings: list[str]) -> dict[str, list[Found]]:
    """Each run's records that can be read, those with weights first. Raises UserError where their numbers differ."""
    agreeing: dict[str, list[Found]] = {}
    conflicts: list[str] = []
    for run_id, its in found.items():
        agreeing[run_id] = sorted(its, key=lambda each: not each.store.has_weights(run_id))
        if len(its) > 1 and its[0].record.status is Status.DONE:
            read = [(each, _read_whole(run_id, each, warnings)) for each in agreeing[run_id]]
            whole = [(each, record) for each, record in read if record is not None]
            agreeing[run_id] = [each for each, _ in whole]
            for each, record in whole[1:]:
                told = differences.of_runs(whole[0][1], record)
                if told:
                    conflicts.append(f"  {run_id} in {whole[0][0].store.folder} and {each.store.folder}: {told}")
    if conflicts:
        raise UserError(
            "nothing was merged: these runs have other numbers in one folder than in another:",
            *at_most(conflicts, MOST_TOLD, "  and {} more"),
            "leave out the folder that is wrong: `normexp repro` tells what a run gives on this machine",
        )
    return agreeing


def _copy(run_id: str, records: Sequence[Found], target: Store, warnings: list[str]) -> bool:
    """Store the first of the records that can be read. Raises StorageError."""
    for each in records:
        record = _read_whole(run_id, each, warnings)
        if record is not None:
            target.write(replace(record, weights=_weights(run_id, each.store, warnings)))
            return True
    return False


def _weights(run_id: str, store: Store, warnings: list[str]) -> bytes | None:
    """The weights of a run, None where there are none, or, with a warning, where they are damaged."""
    try:
        return store.weights(run_id)[1] if store.has_weights(run_id) else None
    except UserError as fault:
        warnings += [f"{complaint}: the run is merged without them" for complaint in fault.complaints]
        return None


def _read_whole(run_id: str, found: Found, warnings: list[str]) -> RunRecord | None:
    """A record with its traces; None, with a warning, where they cannot be used."""
    try:
        record = found.store.read(run_id)
        if record is not None and record.status is Status.DONE and not (record.traces and record.traces.curve):
            raise UserError(f"{run_id} in {found.store.folder} has no curve")
    except UserError as fault:
        warnings += [f"{complaint}: the run is not merged from there" for complaint in fault.complaints]
        return None
    return record


def _whole(plan: Plan) -> Plan:
    return plan.whole or plan
