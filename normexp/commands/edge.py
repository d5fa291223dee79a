"""normexp edge."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common

if TYPE_CHECKING:
    from normexp.analysis.edge_search import Search
    from normexp.config.plan import Plan
    from normexp.records.record import RunRecord
    from normexp.runner.run_selection import Options
    from normexp.storage.store import Store

PANEL = common.Panel.RUN


def command(
    config: Annotated[Path, typer.Argument(help="A YAML file; the axis does not stand in its grid.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value, as for normexp sweep.", show_default=False)
    ] = None,
    axis: Annotated[str, typer.Option(help="The key that is bisected: lr, init_gain, depth or warmup.")] = "lr",
    low: Annotated[str | None, typer.Option(help="Lowest value of the axis; default by axis.")] = None,
    high: Annotated[str | None, typer.Option(help="Highest value; for warmup by default the steps.")] = None,
    resolution: Annotated[
        str | None, typer.Option(help="How close a bracket's ends must come: a ratio, for whole numbers a difference.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds a value; default: the grid's, or 3.")] = None,
    at_least: Annotated[
        int | None, typer.Option(min=1, help="Seeds that must learn at a value; default: more than half.")
    ] = None,
    out: common.Out = common.OUT,
    jobs: common.Jobs = None,
    max_runs: Annotated[int, typer.Option(min=1, help="Refuse a search that may need more.")] = 10_000,
    dry_run: common.DryRun = False,
    retry_failed: common.RetryFailed = False,
    timeout: common.Timeout = None,
    executor: common.Executor = "processes",
    scheduler: common.Scheduler = None,
    plugin: common.Plugins = None,
) -> None:
    """Bisect one axis for the border between learning and not, in each cell of a grid, over seeds.

    Stored runs of any sweep are reused. Where it looks, and how close a bracket's ends come, unless told otherwise:

    lr from 1e-05 to 1, a ratio of 1.5

    init_gain from 0.1 to 10, a ratio of 1.25

    depth from 1 to 64, 2 apart

    warmup from 0 to the steps, 20 apart
    """
    from normexp.analysis.edge_search import Search
    from normexp.analysis.stability_edges import ask
    from normexp.config import sweep_file
    from normexp.runner.run_selection import Options
    from normexp.terminal.show import say

    sweep = sweep_file.load(config, overrides or ())
    question = ask(sweep, axis, low=low, high=high, resolution=resolution, seeds=seeds, at_least=at_least)
    search = Search(question, max_runs=max_runs)
    options = Options(
        out=out,
        jobs=jobs,
        executor=executor,
        scheduler=scheduler,
        timeout_seconds=timeout,
        retry_failed=retry_failed,
        rerun_outdated=True,
        argv=tuple(sys.argv),
    )
    stored, plan = _begun(search, options)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if dry_run:
        _show_dry_run(search, plan, stored, options)
        return
    say(f"{_asked(search, plan)}: {_most(search)}")
    raise typer.Exit(_execute(search, plan, stored, options))


def _begun(search: Search, options: Options) -> tuple[Mapping[str, RunRecord], Plan]:
    """What is stored of any sweep, and the plan that follows from it."""
    from normexp.storage import index
    from normexp.storage.store import Store

    store, stored = Store(options.out / search.folder), index.records(options.out)
    return stored, search.first(stored, store.records() if store.exists() else ())


def _asked(search: Search, plan: Plan) -> str:
    from normexp.analysis.edge_tables import asked_text
    from normexp.config.labels import plural

    return f"{plan.name}: {plural(len(search.edges({})), 'cell')}, {asked_text(search.question)}"


def _most(search: Search) -> str:
    """How many runs it may need, beside those of the grid of this resolution."""
    from normexp.config.labels import plural

    grid, more = plural(search.grid_runs, "run"), search.most_runs - search.grid_runs
    told = f"at most {plural(search.most_runs, 'run')}; the whole grid of this resolution takes {grid}"
    if more <= 0:
        return told
    return f"{told}: in the worst case the search needs {more} more than the grid, which normexp sweep runs"


def _show_dry_run(search: Search, plan: Plan, stored: Mapping[str, RunRecord], options: Options) -> None:
    from normexp.config.labels import duration, plural
    from normexp.runner import sampling
    from normexp.runner.run_selection import work_of
    from normexp.runner.sweep import check
    from normexp.storage.store import Store
    from normexp.terminal.show import excluded_lines, show

    losses = check(plan, options)
    store = Store(options.out / plan.folder)
    todo = work_of(plan, store, store.records() if store.exists() else {}, options).todo
    seconds, basis = sampling.seconds(todo, stored.values(), options, losses)
    show(
        _asked(search, plan),
        *excluded_lines(search.excluded, f" at each value of {search.question.axis}"),
        _most(search),
        f"{plural(len(search.ended(stored)), 'run')} stored; next {len(todo)}, about {duration(seconds)} ({basis})",
        f"folder: {options.out / plan.folder}",
    )


def _execute(search: Search, plan: Plan, stored: Mapping[str, RunRecord], options: Options) -> int:
    """Run round by round under the live view, then write and print what was found. Returns the exit code."""
    from normexp.analysis import edge_tables as views
    from normexp.runner.sweep import run_sweep
    from normexp.storage.store import StorageError, Store
    from normexp.terminal.console import Encodable, ResponsiveTable
    from normexp.terminal.live import View, names_of
    from normexp.terminal.show import say, screen, show

    store, question = Store(options.out / plan.folder), search.question
    view = View(screen(), names_of(plan), store.folder)

    def grow(records: Mapping[str, RunRecord]) -> Plan | None:
        larger = search.grow(records)
        if larger is None:
            _write(store, search, records)  # before the figures are, for the report shows it among them
            return None
        view.names |= names_of(larger)
        edges = search.edges(records)
        say(f"next values of {question.axis} in {sum(not edge.finished for edge in edges)} of {len(edges)} cells")
        return larger

    swept = run_sweep(plan, options, view, grow)
    records = swept.report.records
    if swept.stopped:
        with suppress(StorageError):  # told already, if the disk is full
            _write(store, search, records)
    edges = search.edges(records)
    words, cost = views.conclusion(question, edges), views.cost(search, records, stored)
    show(ResponsiveTable(views.table(question, edges)), Encodable(words, "bold"), cost, f"Files: {store.folder}")
    if swept.message:
        say(swept.message)
    return swept.exit_code


def _write(store: Store, search: Search, records: Mapping[str, RunRecord]) -> None:
    from normexp.report.edge_report import write

    write(store, search, records)
