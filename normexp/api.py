"""normexp from Python: one run, a sweep, and what is stored. The commands call the same functions.

Losses are in nats over the validation targets, steps are updates counted from 1. Input that the user must mend raises
UserError, with every complaint at once. Nothing here needs an `if __name__ == "__main__"`: workers never run the script
that started them. Ctrl-C stores what has finished, and the same call goes on from there.
"""

from __future__ import annotations

import functools
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from normexp.analysis import frames as tables
from normexp.config import feasibility, grid, plugins
from normexp.config import sweep_file as given
from normexp.config.plan import Plan, parse_shard
from normexp.config.run import KEYS, RunConfig
from normexp.config.yaml_file import nearest
from normexp.errors import ConfigWarning, UserError
from normexp.execution.events import Event, Finished, Progress
from normexp.execution.executors import chosen
from normexp.execution.worker import Job
from normexp.records.execution_path import ExecutionPath, requested
from normexp.records.record import RunRecord
from normexp.report import report as reports
from normexp.report.contents import Report
from normexp.runner.run_selection import Options
from normexp.runner.sweep import Listener, check_memory, check_tasks, run_sweep
from normexp.storage import RESULTS
from normexp.storage.store import MANIFEST, Store

if TYPE_CHECKING:
    import pandas as pd


Files = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A plugin's file, or several; they are loaded for the rest of the process."""
READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = {".csv": tables.read_csv, ".parquet": tables.read_parquet}
"""What reads a file of ours, by the end of its name."""


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def _former_names(**names: str) -> Callable[[Callable[Parameters, Returned]], Callable[Parameters, Returned]]:
    """Let a function accept keywords under their former names, and warn of each."""

    def decorate(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
        @functools.wraps(function)
        def call(*positional: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
            for former in names.keys() & keywords.keys():
                warnings.warn(f"{former}= is now called {names[former]}=", FutureWarning, stacklevel=2)
                keywords[names[former]] = keywords.pop(former)
            return function(*positional, **keywords)

        return call

    return decorate


@_former_names(plain="autograd")
def run(
    config: RunConfig | Mapping[str, Any],
    *,
    autograd: bool = False,
    path: ExecutionPath | None = None,
    timeout_seconds: float | None = None,
    executor: str = "processes",
    scheduler: str | None = None,
    plugin: Files = (),
    progress: Callable[[Progress], None] | None = None,
) -> RunRecord:
    """Train one network and judge it; nothing is stored. `config` may be a dict of keys: {"depth": 4, "lr": 1e-2}.

    The record has the canonical config (keys that do not matter at their neutral value), `status`, `verdict` with the
    outcome, `result` with losses and the death, if any, and `traces`: `curve`, one row an update, and `layers`. A run
    that diverges is done, as in a sweep; only one whose process fails has another status, and `error`, and no verdict.
    `autograd`: every step by autograd; `path` names an execution path, by default the fastest. `executor`: "processes",
    "inline" or "dask"; the last with the address of its `scheduler`, or "local". `progress` is called some times a
    second while it trains.

    Raises UserError where no run can be made with these values, or it does not fit into memory; where the task has
    nothing to learn or an infinite reference loss; and where the executor is unknown, or has not what it needs.
    """
    _load(plugin)
    config = config if isinstance(config, RunConfig) else _config(config)
    feasibility.refuse([config])
    for text in feasibility.warnings([config]):
        warnings.warn(text, ConfigWarning, stacklevel=2)
    check_memory([config], scheduler)
    job = Job(plugins.loaded(), autograd=autograd, losses=check_tasks([config]), path=path or requested())
    execute = chosen(executor, scheduler)
    events = execute([config.canonical()], jobs=1, timeout_seconds=timeout_seconds, work=job)
    with closing(events):
        for event in events:
            if isinstance(event, Finished):
                return event.record
            if progress is not None and isinstance(event, Progress):
                progress(event)
    raise RuntimeError("the executor ended without a record")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SweepResult:
    """A sweep's folder as it is now. `exit_code` is the command's: 0 where every run is done, 1 where some failed."""

    folder: Path
    exit_code: int
    report: Report

    @property
    def frame(self) -> pd.DataFrame:
        """One row a run, as in runs.csv: `run_id`, `status`, `outcome`, every config key, losses, the death."""
        return self.report.runs

    @property
    def points(self) -> pd.DataFrame:
        """One row a point: the axes' values as asked, and the `run_id` that answers it."""
        return tables.points(self.report.plan)

    @property
    def summary(self) -> pd.DataFrame:
        """One row a cell, a combination without seeds: counts, median with the dead as infinite, mean, interval."""
        return self.report.summary

    @property
    def conclusion(self) -> str:
        """What came of it, in sentences."""
        return self.report.conclusion

    @property
    def records(self) -> Mapping[str, RunRecord]:
        """Run id to record, without traces, of the runs that have ended."""
        return self.report.records

    def read(self, run_id: str) -> RunRecord:
        """One record with its traces and log. Raises UserError where it has not ended or is not of this sweep."""
        record = Store(self.folder).read(run_id)
        if record is None:
            raise UserError(f"{run_id}: no such run has ended in {self.folder}")
        return record

    def __repr__(self) -> str:
        return f"<SweepResult {self.folder}, exit code {self.exit_code}: {self.conclusion}>"


@_former_names(plain="autograd", refresh="rerun_outdated")
def sweep(
    config: given.Config,
    overrides: str | Sequence[str] = (),
    *,
    out: str | PathLike[str] = RESULTS,
    jobs: int | None = None,
    scale: float = 1.0,
    max_runs: int = grid.MAX_RUNS,
    executor: str = "processes",
    scheduler: str | None = None,
    shard: str | None = None,
    timeout_seconds: float | None = None,
    only: str | Sequence[str] = (),
    retry_failed: bool = False,
    rerun_outdated: bool = False,
    force: bool = False,
    fail_fast: bool = False,
    save_weights: bool = False,
    autograd: bool = False,
    plugin: Files = (),
    progress: bool | Listener = False,
) -> SweepResult:
    """Run what is missing of a grid; write its tables and figures below `out`. The options are those of the command.

    `config` is a path, YAML text, or a dict of the same form: {"base": {"depth": 4}, "grid": {"lr": [1e-3, 1e-2]}}.
    `overrides` are texts, "steps=100". `jobs` runs at a time, by default as many as there are processors.
    `shard`, "2/4", makes that share of the runs, in a folder of its own.
    `plugin` files are loaded for the rest of the process. With `progress`, the command's live view on standard
    error, or whoever follows it. What the command prints as a warning, such as how many duplicate points were dropped,
    is issued as a ConfigWarning.

    Raises UserError for bad input, before anything is written; and where the disk is full or no worker can be started.
    """
    _load(plugin)
    plan = grid.plan(given.read(config, _listed(overrides), scale=scale), max_runs=max_runs)
    for text in plan.warnings:
        warnings.warn(text, ConfigWarning, stacklevel=2)
    if shard is not None:
        plan = plan.part(parse_shard(shard))
    options = Options(
        out=Path(out),
        jobs=jobs,
        executor=executor,
        scheduler=scheduler,
        timeout_seconds=timeout_seconds,
        only=tuple(_listed(only)),
        retry_failed=retry_failed,
        rerun_outdated=rerun_outdated,
        force=force,
        fail_fast=fail_fast,
        save_weights=save_weights,
        autograd=autograd,
    )
    swept = run_sweep(plan, options, _listener(plan, progress))
    if swept.stopped:
        if swept.exit_code > 128:
            signal.raise_signal(swept.exit_code - 128)  # what the signal would have done: KeyboardInterrupt, or the end
        raise UserError(swept.message)
    return SweepResult(folder=swept.store.folder, exit_code=swept.exit_code, report=swept.report)


def load(path: str | PathLike[str], *, plugin: Files = ()) -> pd.DataFrame:
    """One row a run of a sweep's folder, finished or not, as `SweepResult.frame`; or any CSV or Parquet file of ours.

    Each column has its type whatever its cells hold: counts Int64, losses Float64, switches boolean, and words text, in
    which `none` is a word and no gap. In a Float64 column a NaN is a result, and NA is what was not measured: `isna`
    tells of NA alone. In a float64 column a NaN is a gap. Calculations with a Float64 column make NA of NaN, unless
    `pandas.set_option("future.distinguish_nan_and_na", True)` is called first.
    For a folder of sweeps: the runs of all of them, with the column `sweep` first.

    Raises UserError where there is nothing of ours, or runs of a plugin's that is not loaded.
    """
    _load(plugin)
    place = Path(path)
    if place.is_file():
        if place.suffix not in READERS:
            raise UserError(f"{place}: a file to load ends in {' or '.join(READERS)}; of a sweep, give the folder")
        return READERS[place.suffix](place)
    if (place / MANIFEST).is_file():
        return reports.read(Store(place)).runs
    return _of_all(place)


def _load(files: Files) -> None:
    for path in _listed(files):
        plugins.add(plugins.read(Path(path)))


def _config(keys: Mapping[str, Any]) -> RunConfig:
    """Raises UserError for unknown keys, and for values that do not fit."""
    unknown = [name for name in keys if name not in KEYS]
    if unknown:
        raise UserError(*(f"{name}: no key of a run; {nearest(str(name), KEYS)}" for name in unknown))
    return RunConfig(**keys)


def _of_all(out: Path) -> pd.DataFrame:
    import pandas as pd

    from normexp.storage import index

    frames = []
    for store in index.sweeps(out):
        runs = reports.read(store).runs
        runs.insert(0, "sweep", store.folder.name)
        frames.append(runs)
    if not frames:
        raise UserError(f"{out} is no sweep's folder, holds none, and is no CSV file")
    return pd.concat(frames, ignore_index=True)


class _Quiet:
    """Follows a sweep and shows nothing."""

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


def _listener(plan: Plan, progress: bool | Listener) -> Listener:
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return _Quiet()
    from rich.console import Console

    from normexp.terminal import live

    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    return live.View(screen, live.names_of(plan))


def _listed(given: Any) -> Sequence[Any]:
    """One text or path as a list of one."""
    return [given] if isinstance(given, str | PathLike) else given
