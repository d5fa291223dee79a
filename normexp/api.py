"""The Python interface of normexp: train one network, run a sweep, load stored results.

Losses are in nats, averaged over the validation targets. Steps are counted from 1. Invalid input raises UserError with
every complaint at once. Scripts need no `if __name__ == "__main__"`, because workers never run the script that started
them. After Ctrl-C, finished runs are stored, and the same call runs only the missing ones.
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
from normexp.config import feasibility, grid, plugins, sweep_file
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
"""One plugin file or several. Plugins stay loaded for the rest of the process."""
READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = {".csv": tables.read_csv, ".parquet": tables.read_parquet}
"""Readers of our table files, by suffix."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def _former_names(**names: str) -> Callable[[Callable[Parameters, Returned]], Callable[Parameters, Returned]]:
    """Let a function accept keywords under their former names, with a FutureWarning."""

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
    """Train one network and return its record. Nothing is stored.

    `config` is a RunConfig or a dict of keys, {"depth": 4, "lr": 1e-2}. With `autograd`, gradients are computed with
    autograd; `path` selects an execution path, by default the fastest. `executor` is "processes", "inline" or "dask",
    the latter with the address of its `scheduler` or "local". `progress` is called a few times per second.

    The record contains the canonical config (keys that cannot affect the run at their neutral value), `status`,
    `verdict` with the outcome, `result` with losses and, for a non-finite run, `death`, and `traces` with `curve` (one
    row per step) and `layers`. A run that diverges is done. A run whose process fails has another status, an `error`
    and no verdict.

    Raises UserError if the values are invalid, if the run does not fit into memory, if the task has no learnable gap
    or an infinite reference loss, or if the executor is unknown or not available.
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
    """The results of a sweep in its folder. `exit_code` is 0 if all runs are done, 1 if some failed."""

    folder: Path
    exit_code: int
    report: Report

    @property
    def frame(self) -> pd.DataFrame:
        """One row per run, as in runs.csv: `run_id`, `status`, `outcome`, config keys, losses, non-finite step."""
        return self.report.runs

    @property
    def points(self) -> pd.DataFrame:
        """One row per config of the grid: its values on the axes, and its `run_id`."""
        return tables.points(self.report.plan)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per cell (a config over seeds): counts, medians (non-finite runs count as infinity), means, CIs."""
        return self.report.summary

    @property
    def conclusion(self) -> str:
        """The main results in sentences."""
        return self.report.conclusion

    @property
    def records(self) -> Mapping[str, RunRecord]:
        """Records of finished runs by run id, without traces."""
        return self.report.records

    def read(self, run_id: str) -> RunRecord:
        """Return one record with its traces and log. Raises UserError if the sweep has no such finished run."""
        record = Store(self.folder).read(run_id)
        if record is None:
            raise UserError(f"{run_id}: no such finished run in {self.folder}")
        return record

    def __repr__(self) -> str:
        return f"<SweepResult {self.folder}, exit code {self.exit_code}: {self.conclusion}>"


@_former_names(plain="autograd", refresh="rerun_outdated")
def sweep(
    config: sweep_file.Config,
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
    """Run the missing runs of a grid, and write tables and figures below `out`. Options are those of `normexp sweep`.

    `config` is a path, YAML text, or a dict of the same form: {"base": {"depth": 4}, "grid": {"lr": [1e-3, 1e-2]}}.
    `overrides` are texts, "steps=100". `jobs` is the number of parallel runs, by default one per processor.
    `shard`, "2/4", runs that share of the grid in a separate folder. `plugin` files stay loaded for the rest of the
    process. `progress=True` shows the live view on standard error; a listener receives the events. Warnings, such as
    dropped duplicates, are issued as ConfigWarning.

    Raises UserError for invalid input, before anything is written, and if the disk is full or no worker can be started.
    """
    options = Options.of(locals())
    _load(plugin)
    plan = grid.plan(sweep_file.read(config, _listed(overrides), scale=scale), max_runs=max_runs)
    for text in plan.warnings:
        warnings.warn(text, ConfigWarning, stacklevel=2)
    if shard is not None:
        plan = plan.part(parse_shard(shard))
    swept = run_sweep(plan, options, _listener(plan, progress))
    if swept.stopped:
        if swept.exit_code > 128:
            signal.raise_signal(swept.exit_code - 128)  # its usual effect: KeyboardInterrupt or the end
        raise UserError(swept.message)
    return SweepResult(folder=swept.store.folder, exit_code=swept.exit_code, report=swept.report)


def load(path: str | PathLike[str], *, plugin: Files = ()) -> pd.DataFrame:
    """Return one row per run of a sweep's folder, like `SweepResult.frame`, or the table in a CSV or Parquet file.

    For a folder of sweeps, return the runs of all of them, with the column `sweep` first.

    Column types do not depend on the cells: counts are Int64, losses Float64, switches boolean, words text (in which
    `none` is a word). In a Float64 column, NaN is a result and NA means not measured; `isna` finds only NA. In a
    float64 column, NaN means not measured. Calculations with Float64 columns turn NaN into NA, unless
    `pandas.set_option("future.distinguish_nan_and_na", True)` is set.

    Raises UserError if the path holds no results, or if runs need a plugin that is not loaded.
    """
    _load(plugin)
    path = Path(path)
    if path.is_file():
        if path.suffix not in READERS:
            raise UserError(f"{path}: not a {' or '.join(READERS)} file; for a sweep, give its folder")
        return READERS[path.suffix](path)
    if (path / MANIFEST).is_file():
        return reports.read(Store(path)).runs
    return _load_all(path)


def _load(files: Files) -> None:
    for path in _listed(files):
        plugins.add(plugins.read(Path(path)))


def _config(keys: Mapping[str, Any]) -> RunConfig:
    """Raise UserError for unknown keys and invalid values."""
    unknown = [name for name in keys if name not in KEYS]
    if unknown:
        raise UserError(*(f"{name}: not a config key; {nearest(str(name), KEYS)}" for name in unknown))
    return RunConfig(**keys)


def _load_all(out: Path) -> pd.DataFrame:
    import pandas as pd

    from normexp.storage import index

    frames = []
    for store in index.sweeps(out):
        runs = reports.read(store).runs
        runs.insert(0, "sweep", store.folder.name)
        frames.append(runs)
    if not frames:
        raise UserError(f"{out} is neither a sweep's folder nor a folder of sweeps nor a CSV or Parquet file")
    return pd.concat(frames, ignore_index=True)


class _Quiet:
    """A listener that shows nothing."""

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


def _listed(value: Any) -> Sequence[Any]:
    """Return a single text or path as a list."""
    return [value] if isinstance(value, str | PathLike) else value
