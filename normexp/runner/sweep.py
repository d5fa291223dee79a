"""Run what a plan needs and the results folder lacks, store it, and rebuild the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from normexp.config import feasibility, plugins
from normexp.config.plan import Plan, selected
from normexp.config.run import RunConfig
from normexp.errors import EXIT_RUNS_FAILED, UserError
from normexp.execution import machine
from normexp.execution.events import Event, Finished
from normexp.execution.executors import chosen, jobs_or_default
from normexp.execution.pool.launch import LauncherError
from normexp.execution.signals import Stopped, stoppable
from normexp.execution.worker import Job
from normexp.records.execution_path import requested
from normexp.records.record import Losses, RunRecord, Status
from normexp.report import report
from normexp.report.contents import Report
from normexp.runner.run_selection import Options, Work, work_of
from normexp.runner.time_left import longest_first
from normexp.storage.files import NotFollowed, below
from normexp.storage.outputs import check_places
from normexp.storage.store import StorageError, Store

if TYPE_CHECKING:
    from normexp.data.tasks import TaskName

Grow = Callable[[Mapping[str, RunRecord]], Plan | None]
"""A function from the records of a finished plan to the larger plan that follows it, or None at the end."""
MAX_CHECKED_TASKS = 50
"""Maximum number of tasks that are checked before the first run. Further invalid tasks fail run by run."""


class Listener(Protocol):
    """An observer of a sweep. `begin` gets the runs to do, `event` each event; `end` is always called."""

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The end of a sweep: folder, report, exit code, and a message for the user. A stopped sweep has no new figures."""

    store: Store
    report: Report
    exit_code: int
    message: str = ""
    stopped: bool = False


def check_tasks(configs: Iterable[RunConfig]) -> dict[TaskName, Losses]:
    """Return the reference losses of the first tasks, before any run starts.

    Raises UserError if a task has nothing to learn, an infinite reference loss, or does not fit into memory.
    """
    from normexp.data.tasks import Task

    configs_of_tasks = {Task(config).name: config for config in configs}
    losses: dict[TaskName, Losses] = {}
    complaints = []
    for name, config in list(configs_of_tasks.items())[:MAX_CHECKED_TASKS]:
        try:
            losses[name] = Task(config).check()  # keep no reference to the task: its tables are large
        except ValueError as fault:
            complaints.append(str(fault))
        except MemoryError:
            complaints.append(f"the task does not fit into memory: lower seq_len ({config.seq_len}) or order")
    if complaints:
        raise UserError(*complaints)
    return losses


def check_memory(configs: Iterable[RunConfig], scheduler: str | None = None) -> None:
    """Raise UserError if a run needs more memory than this machine has, unless a remote scheduler runs it."""
    memory = machine.memory_bytes()
    if memory is None or scheduler not in (None, "local"):
        return
    largest = max(configs, key=feasibility.least_bytes, default=None)
    if largest is not None and (needed := feasibility.least_bytes(largest)) > memory:
        raise UserError(
            f"a run of depth {largest.depth}, width {largest.width}, hidden {largest.hidden}, batch {largest.batch} and"
            f" seq_len {largest.seq_len} needs at least {needed / 2**30:.3g} GiB of memory, and this machine has"
            f" {memory / 2**30:.3g} GiB: make it smaller"
        )


def check(plan: Plan, options: Options) -> dict[TaskName, Losses]:
    """Check all that can be refused before anything is written; return the reference losses. Raises UserError."""
    chosen(options.executor, options.scheduler)
    requested()
    jobs_or_default(options.jobs, options.scheduler)
    if options.executor == "inline" and options.timeout_seconds is not None:
        raise UserError("timeout: the inline executor has no process to stop: use executor processes")
    check_memory(plan.configs.values(), options.scheduler)
    losses = check_tasks(plan.configs.values())
    selected(plan, options.only)
    return losses


def run_sweep(plan: Plan, options: Options, listener: Listener, grow: Grow = lambda records: None) -> Swept:
    """Run what is missing of a plan and of the larger plans that follow, and rebuild the tables and figures.

    Raises UserError, before anything is written, if the plan or the folder cannot be used.
    """
    losses = check(plan, options)
    store = Store(below(options.out, plan.folder))
    with stoppable(), store.lock():
        store.begin(plan, options.argv, force=options.force)
        records = store.records()
        work = work_of(plan, store, records, options)
        check_places(store, [*(config.run_id for config in work.todo), *work.reusable])
        ended: list[RunRecord] = []
        if work.todo:
            report.load_drawing()
        try:
            job = Job(plugins.loaded(), options.save_weights, options.autograd, losses, options.watched)
            _execute(work, job, store, options, listener, ended)
            once = replace(options, force=False, retry_failed=False)
            while (larger := grow(records := store.records() if ended else records)) is not None:
                plan, ended = larger, []
                store.begin(plan, options.argv, force=False)
                records = store.records()
                work = work_of(plan, store, records, once)
                _execute(work, job, store, once, listener, ended)
            store.warnings += work.warnings
            made = report.rebuild(store, figures=True, redraw=bool(ended), known=(plan, records))
        except Stopped as stop:
            exit_code, why = stop.exit_code, f"stopped by {stop}"
        except (StorageError, NotFollowed, LauncherError) as fault:
            exit_code, why = EXIT_RUNS_FAILED, str(fault)
        else:
            return Swept(store=store, report=made, exit_code=made.exit_code)
        message = f"{why}: {_left(work, ended)}; the same command{' without --force' * options.force} continues"
        return Swept(store=store, report=_unfinished(store, plan), exit_code=exit_code, message=message, stopped=True)


def _execute(work: Work, job: Job, store: Store, options: Options, listener: Listener, ended: list[RunRecord]) -> None:
    """Copy runs that other sweeps have, run the rest, and append each stored record to `ended`."""
    for run_id, (config, other) in list(work.reusable.items()):
        try:
            copy = store.copy_from(other, run_id, weights=options.save_weights)
            ended.append(replace(copy, traces=None, log=None))
        except StorageError:
            raise
        except UserError as fault:  # its traces cannot be read
            work.warnings += [f"{complaint}: the run is made again here" for complaint in fault.complaints]
            del work.reusable[run_id]
            work.todo.append(config)
    work.todo = longest_first(work.todo)
    _tell(listener.begin, work.todo, done=work.done, failed=work.failed, reused=len(ended))
    execute = chosen(options.executor, options.scheduler)
    jobs = jobs_or_default(options.jobs, options.scheduler)
    events = execute(work.todo, jobs=jobs, timeout_seconds=options.timeout_seconds, work=job)
    try:
        with closing(events):
            for event in events:
                if isinstance(event, Finished):
                    store.write(event.record)
                    event = Finished(replace(event.record, log=None, weights=None))
                    ended.append(replace(event.record, traces=None))  # traces need much memory
                _tell(listener.event, event)
                if options.fail_fast and isinstance(event, Finished) and event.record.status is not Status.DONE:
                    return
    finally:
        _tell(listener.end)


def _tell(tell: Callable[..., None], *news: object, **more: object) -> None:
    """Call a listener. Ignore display errors, such as a closed terminal."""
    with suppress(OSError):
        tell(*news, **more)


def _unfinished(store: Store, plan: Plan) -> Report:
    """Return the report after a stop. The tables are rebuilt unless the disk is full or the folder is gone."""
    for make in (report.rebuild, report.read):
        with suppress(UserError):
            return make(store)
    return report.of(store, plan, {})


def _left(work: Work, ended: Sequence[RunRecord]) -> str:
    """Return the state in words: `2 done, 1 failed, 3 to do`."""
    failed = sum(record.status is not Status.DONE for record in ended)
    counts = {
        "done": work.done + len(ended) - failed,
        "failed": work.failed + failed,
        "to do": len(work.todo) + len(work.reusable) - len(ended),
    }
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count or word != "failed")
