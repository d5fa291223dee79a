"""normexp edge: bisect one key for its stability limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common
from normexp.config.presets import EDGE_AXES

if TYPE_CHECKING:
    from normexp.analysis.edge_search import Search
    from normexp.config.plan import Plan
    from normexp.records.record import RunRecord
    from normexp.runner.run_selection import Options
    from normexp.storage.store import Store

PANEL = common.Panel.RUN
EXAMPLE = "normexp edge configs/edge.yaml --axis lr --dry-run"


def command(
    config: Annotated[Path, typer.Argument(help="YAML file; its grid must not contain the axis.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value, as for normexp sweep.", show_default=False)
    ] = None,
    axis: Annotated[str, typer.Option(help=f"Key to bisect: {', '.join(EDGE_AXES)}.")] = "lr",
    low: Annotated[str | None, typer.Option(help="Lowest value; the default depends on the axis.")] = None,
    high: Annotated[str | None, typer.Option(help="Highest value; the default depends on the axis.")] = None,
    resolution: Annotated[
        str | None,
        typer.Option(
            help="Largest final bracket: a ratio of its ends, or a difference for depth and warmup; "
            "default: depends on the axis."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per value; default: those of the grid, or 3.")] = None,
    at_least: Annotated[
        int | None, typer.Option(min=1, help="Seeds that must learn for a value to count; default: more than half.")
    ] = None,
    out: common.Out = common.OUT,
    jobs: common.Jobs = None,
    max_runs: Annotated[int, typer.Option(min=1, help="Reject searches that may need more runs.")] = 10_000,
    dry_run: common.DryRun = False,
    retry_failed: common.RetryFailed = False,
    timeout: common.Timeout = None,
    executor: common.Executor = "processes",
    scheduler: common.Scheduler = None,
    plugin: common.Plugins = None,
) -> None:
    given = locals()
    from normexp.analysis.edge_search import Search
    from normexp.analysis.stability_edges import ask
    from normexp.config import sweep_file
    from normexp.runner.run_selection import Options
    from normexp.terminal.show import say

    sweep = sweep_file.load(config, overrides or ())
    question = ask(sweep, axis, low=low, high=high, resolution=resolution, seeds=seeds, at_least=at_least)
    search = Search(question, max_runs=max_runs)
    options = Options.of(given, timeout_seconds=timeout, rerun_outdated=True, argv=sys.argv)
    stored, plan = _first_plan(search, options)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if dry_run:
        _show_dry_run(search, plan, stored, options)
        return
    say(f"{_headline(search, plan)}: {_cost_bound(search)}")
    raise typer.Exit(_execute(search, plan, stored, options))


command.__doc__ = """\
Bisect one key for its stability limit, the value beyond which networks stop learning, in each cell of a grid.

Stored runs of any sweep are reused. Default ranges and resolutions:

""" + "\n\n".join(f"{name}: {row}" for name, row in EDGE_AXES.items())


def _first_plan(search: Search, options: Options) -> tuple[Mapping[str, RunRecord], Plan]:
    """Return all stored records of the results folder by run id, and the plan of the first round."""
    from normexp.storage import index
    from normexp.storage.store import Store

    store, stored = Store(options.out / search.folder), index.records(options.out)
    return stored, search.first(stored, store.records() if store.exists() else ())


def _headline(search: Search, plan: Plan) -> str:
    from normexp.analysis.edge_tables import asked_text
    from normexp.config.labels import plural

    return f"{plan.name}: {plural(len(search.edges({})), 'cell')}, {asked_text(search.question)}"


def _cost_bound(search: Search) -> str:
    """Return the largest number of runs that the search may need, compared with the full grid of its resolution."""
    from normexp.config.labels import plural

    grid, more = plural(search.grid_runs, "run"), search.most_runs - search.grid_runs
    bound = f"at most {plural(search.most_runs, 'run')}; the full grid of this resolution takes {grid}"
    if more <= 0:
        return bound
    return f"{bound}: in the worst case the search needs {more} more than the grid, which normexp sweep runs"


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
        _headline(search, plan),
        *excluded_lines(search.excluded, f" at each value of {search.question.axis}"),
        _cost_bound(search),
        f"{plural(len(search.ended(stored)), 'run')} stored; next {len(todo)}, about {duration(seconds)} ({basis})",
        f"folder: {options.out / plan.folder}",
    )


def _execute(search: Search, plan: Plan, stored: Mapping[str, RunRecord], options: Options) -> int:
    """Run round by round under the live view, then write and print the limits found. Return the exit code."""
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
            _write(store, search, records)  # the report that run_sweep writes next shows this figure
            return None
        view.names |= names_of(larger)
        edges = search.edges(records)
        say(f"next values of {question.axis} in {sum(not edge.finished for edge in edges)} of {len(edges)} cells")
        return larger

    swept = run_sweep(plan, options, view, grow)
    records = swept.report.records
    if swept.stopped:
        with suppress(StorageError):  # a full disk has been reported by run_sweep
            _write(store, search, records)
    edges = search.edges(records)
    words, cost = views.conclusion(question, edges), views.cost(search, records, stored)
    show(ResponsiveTable(views.table(question, edges)), Encodable(words, "bold"), cost, f"Files: {store.folder}")
    if swept.message:
        say(swept.message)
    return swept.exit_code


def _write(store: Store, search: Search, records: Mapping[str, RunRecord]) -> None:
    """Write edge.md, edge.csv and the figure with its data. Raises StorageError."""
    from normexp.analysis import edge_tables as views
    from normexp.analysis import frames
    from normexp.plots.edges import draw
    from normexp.plots.style import render
    from normexp.report.markdown import escape, table_text
    from normexp.report.report import write_figure

    question, edges = search.question, search.edges(records)
    limits = views.table(question, edges)
    sentences = (views.conclusion(question, edges), views.cost(search, records), limits.title)
    parts = [f"# {escape(search.title)}", *map(escape, sentences), table_text(limits), escape(limits.note)]
    store.write_derived("edge.md", "\n\n".join(parts) + "\n")
    store.write_derived("edge.csv", frames.to_csv(views.borders_frame(edges)))
    images = render(draw(search.title, question, edges), dpi=180)
    write_figure(store, "edge", images, views.shares_frame(question, edges))
