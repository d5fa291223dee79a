"""A plan against what is stored: run what is missing, store it, and make the tables again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from normexp import plugins
from normexp.errors import EXIT_OK, EXIT_RUNS_FAILED, UserError
from normexp.execute.events import Event, Finished
from normexp.execute.executors import EXECUTORS
from normexp.execute.launch import LauncherError
from normexp.execute.worker import Job
from normexp.interrupt import Stopped, stoppable
from normexp.keys import Value
from normexp.plan import Plan
from normexp.record import Losses, RunRecord, Status
from normexp.results.store import StorageError, Store
from normexp.run import KEYS, RunConfig
from normexp.views import report
from normexp.views.report import Report

if TYPE_CHECKING:
    from normexp.tasks import TaskName

MAX_CHECKED_TASKS = 50
"""Tasks that are checked before the first run; those of larger sweeps fail run by run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a sweep is executed; nothing here changes a number."""

    out: Path
    jobs: int
    executor: str = "processes"
    timeout_seconds: float | None = None
    force: bool = False
    retry_failed: bool = False
    refresh: bool = False
    fail_fast: bool = False
    save_weights: bool = False
    only: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()


class Listener(Protocol):
    """Who follows a sweep: `begin` with the work, `event` for each event, `end` always."""

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How a sweep ended: its folder, its report, the exit code, and the words for whoever started it.

    One that was stopped has no new figures.
    """

    store: Store
    report: Report
    exit_code: int
    message: str = ""
    stopped: bool = False


@dataclass
class Work:
    """What a plan asks for: `todo` to run, `reusable` in other sweeps, `skipped` by `only`.

    The others are here: `done`, or `failed` (killed and timed out as well) and left so. `without_weights`: those of
    `todo` that are done, but for their weights.
    """

    todo: list[RunConfig] = field(default_factory=list)
    reusable: dict[str, tuple[RunConfig, Store]] = field(default_factory=dict)
    done: int = 0
    failed: int = 0
    skipped: int = 0
    without_weights: int = 0


def work_of(plan: Plan, store: Store, records: Mapping[str, RunRecord], options: Options) -> Work:
    """Decide run by run. Raises UserError where `only` matches nothing."""
    wanted = _selected(plan, options.only)
    work = Work()
    for run_id, config in plan.configs.items():
        record = records.get(run_id)
        again = record is not None and _again(record, options)
        lacking = record is not None and run_id in wanted and _lacks_weights(record, store, options)
        if record is not None and not again and not lacking:
            work.done += record.status is Status.DONE
            work.failed += record.status is not Status.DONE
        elif run_id not in wanted:
            work.skipped += 1
        else:
            other = None
            if not options.force and (record is None or lacking):
                other = store.find_elsewhere(options.out, run_id, weights=options.save_weights)
            if other is None:
                work.todo.append(config)
                work.without_weights += lacking and not again
            else:
                work.reusable[run_id] = config, other
    return work


def _again(record: RunRecord, options: Options) -> bool:
    failed = record.status is not Status.DONE
    return options.force or (failed and options.retry_failed) or (record.stale and options.refresh)


def _lacks_weights(record: RunRecord, store: Store, options: Options) -> bool:
    return options.save_weights and record.status is Status.DONE and not store.has_weights(record.run_id)


def _selected(plan: Plan, only: Sequence[str]) -> set[str]:
    """Ids of the runs whose points agree with a value of every key in `key=value`, as asked or as run."""
    wanted: dict[str, set[Value]] = {}
    for text in only:
        name, equals, value = text.partition("=")
        if not equals or name not in KEYS:
            raise UserError(f"--only {text}: write key=value, with a key of the config")
        try:
            wanted.setdefault(name, set()).add(KEYS[name].parse(value))
        except ValueError as fault:
            raise UserError(f"--only {text}: {fault}") from fault
    found = {
        point.config.run_id
        for point in plan.points
        if all(values & {point.values.get(key), getattr(point.config, key)} for key, values in wanted.items())
    }
    if only and not found:
        raise UserError(f"--only {' '.join(only)}: no point of {plan.name} matches")
    return found


def check_tasks(configs: Iterable[RunConfig]) -> dict[TaskName, Losses]:
    """Reference losses of the first tasks.

    Raises UserError where one has nothing to learn, or is too large to make, before any run starts.
    """
    from normexp.tasks import Task

    configs_of_tasks = {Task(config).name: config for config in configs}
    losses: dict[TaskName, Losses] = {}
    complaints = []
    for name, config in list(configs_of_tasks.items())[:MAX_CHECKED_TASKS]:
        try:
            losses[name] = Task(config).check()  # the task is held by nothing: its tables are large
        except ValueError as fault:
            complaints.append(str(fault))
        except MemoryError:
            complaints.append(f"the task does not fit into memory: lower seq_len ({config.seq_len}) or order")
    if complaints:
        raise UserError(*complaints)
    return losses


def check(plan: Plan, options: Options) -> dict[TaskName, Losses]:
    """Everything that can be refused before anything is written; what `check_tasks` found. Raises UserError."""
    if options.executor not in EXECUTORS:
        raise UserError(f"--executor {options.executor}: there are {', '.join(EXECUTORS)}")
    if options.executor == "inline" and options.timeout_seconds is not None:
        raise UserError("--timeout: the inline executor has no process to stop: use --executor processes")
    losses = check_tasks(plan.configs.values())
    _selected(plan, options.only)
    return losses


def run_sweep(plan: Plan, options: Options, listener: Listener) -> Swept:
    """Run what is missing of a plan and rebuild its tables and figures.

    Raises UserError before anything is written where the plan or the folder cannot be used.
    """
    losses = check(plan, options)
    store = Store(options.out / plan.folder)
    with stoppable(), store.lock():
        store.begin(plan, options.argv, force=options.force)
        work = work_of(plan, store, store.records(), options)
        ended: list[RunRecord] = []
        try:
            _execute(work, Job(plugins.loaded(), options.save_weights, losses), store, options, listener, ended)
            made = report.rebuild(store, figures=True)
        except Stopped as stop:
            exit_code, why = stop.exit_code, f"stopped by {stop}"
        except (StorageError, LauncherError) as fault:
            exit_code, why = EXIT_RUNS_FAILED, str(fault)
        else:
            return Swept(store=store, report=made, exit_code=_exit_code(made))
        message = f"{why}: {_left(work, ended)}; the same command{' without --force' * options.force} continues"
        return Swept(store=store, report=_unfinished(store), exit_code=exit_code, message=message, stopped=True)


def _execute(work: Work, job: Job, store: Store, options: Options, listener: Listener, ended: list[RunRecord]) -> None:
    """Copy what other sweeps have, run the rest, and note in `ended` what is stored."""
    for run_id, (config, other) in list(work.reusable.items()):
        try:
            ended.append(store.copy_from(other, run_id, weights=options.save_weights))
        except StorageError:
            raise
        except UserError:  # its traces cannot be read: run it here
            del work.reusable[run_id]
            work.todo.append(config)
    _tell(listener.begin, work.todo, done=work.done, failed=work.failed, reused=len(ended))
    events = EXECUTORS[options.executor](
        work.todo, jobs=options.jobs, timeout_seconds=options.timeout_seconds, work=job
    )
    try:
        with closing(events):
            for event in events:
                if isinstance(event, Finished):
                    store.write(event.record)
                    event = Finished(replace(event.record, weights=None))  # they are not kept in memory
                    ended.append(event.record)
                _tell(listener.event, event)
                if options.fail_fast and isinstance(event, Finished) and event.record.status is not Status.DONE:
                    return
    finally:
        _tell(listener.end)


def _tell(tell: Callable[..., None], *news: object, **more: object) -> None:
    """A display that has gone, such as a closed terminal, costs no run."""
    with suppress(OSError):
        tell(*news, **more)


def _exit_code(made: Report) -> int:
    ended = [record.status for record in made.records.values()]
    return EXIT_OK if all(status is Status.DONE for status in ended) else EXIT_RUNS_FAILED


def _unfinished(store: Store) -> Report:
    """What there is after a stop; the tables are made again unless the disk is full."""
    try:
        return report.rebuild(store)
    except StorageError:
        return report.read(store)


def _left(work: Work, ended: Sequence[RunRecord]) -> str:
    """`2 done, 1 failed, 3 to do`."""
    failed = sum(record.status is not Status.DONE for record in ended)
    counts = {
        "done": work.done + len(ended) - failed,
        "failed": work.failed + failed,
        "to do": len(work.todo) + len(work.reusable) - len(ended),
    }
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count or word != "failed")
