"""normexp edge."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.cli import options as common

if TYPE_CHECKING:
    from normexp.plan import Plan
    from normexp.record import RunRecord
    from normexp.search import Search
    from normexp.work import Options


def edge(
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and write nothing.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed, killed and timed-out runs again.")
    ] = False,
    timeout: common.Timeout = None,
    executor: common.Executor = "processes",
    plugin: common.Plugins = None,
) -> None:
    """Bisect one axis for the border between learning and not, in each cell of a grid, over seeds."""
    from normexp.cli.show import say
    from normexp.config import sweepfile
    from normexp.edge import ask
    from normexp.search import Search
    from normexp.work import Options

    sweep = sweepfile.load(config, overrides or ())
    question = ask(sweep, axis, low=low, high=high, resolution=resolution, seeds=seeds, at_least=at_least)
    search = Search(question, max_runs=max_runs)
    options = Options(
        out=out,
        jobs=common.jobs_or_default(jobs),
        executor=executor,
        timeout_seconds=timeout,
        retry_failed=retry_failed,
        argv=tuple(sys.argv),
    )
    stored, plan = _begun(search, options)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if dry_run:
        _show_dry_run(search, plan, stored, options)
        return
    raise typer.Exit(_execute(search, plan, stored, options))


def _begun(search: Search, options: Options) -> tuple[Mapping[str, RunRecord], Plan]:
    """What is stored of any sweep, and the plan that follows from it."""
    from normexp.results import library
    from normexp.results.store import Store

    store, stored = Store(options.out / search.folder), library.records(options.out)
    return stored, search.first(stored, store.records() if store.exists() else ())


def _show_dry_run(search: Search, plan: Plan, stored: Mapping[str, RunRecord], options: Options) -> None:
    from normexp import estimate
    from normexp.cli.show import show
    from normexp.sweep import check
    from normexp.views.edge import asked_text
    from normexp.views.labels import plural
    from normexp.views.live import duration

    check(plan, options)
    todo = [config for run_id, config in plan.configs.items() if run_id not in stored]
    seconds, basis = estimate.seconds(todo, stored.values(), options.jobs)
    cells = len(search.edges({}))
    show(
        f"{plan.name}: {plural(cells, 'cell')}, {asked_text(search.question)}",
        f"at most {plural(search.most_runs, 'run')}; the grid of this resolution has {search.grid_runs}",
        f"{plural(len(search.ended(stored)), 'run')} stored; next {len(todo)}, about {duration(seconds)} ({basis})",
        f"folder: {options.out / plan.folder}",
    )


def _execute(search: Search, plan: Plan, stored: Mapping[str, RunRecord], options: Options) -> int:
    """Run round by round under the live view, then write and print what was found. Returns the exit code."""
    from normexp.cli.show import say, screen, show
    from normexp.sweep import run_sweep
    from normexp.views import edge as views
    from normexp.views.console import Encodable, Uncut
    from normexp.views.live import View, names_of

    names = names_of(plan)

    def grow(records: Mapping[str, RunRecord]) -> Plan | None:
        larger = search.grow(records)
        if larger is not None:
            names.update(names_of(larger))
            left = sum(not edge.finished for edge in search.edges(records))
            say(f"next values of {search.question.axis} in {left} of {len(search.edges(records))} cells")
        return larger

    swept = run_sweep(plan, options, View(screen(), names), grow)
    records, question = swept.report.records, search.question
    edges = search.edges(records)
    ended = search.ended(records)
    words = views.conclusion(question, edges)
    cost = views.cost(len(ended), search.grid_runs)
    views.write(swept.store, swept.report.plan.title, question, edges, [words, cost])
    before = len(ended & set(stored))
    reused = f" {before} of them were stored before." if before else ""
    show(Uncut(views.table(question, edges)), Encodable(words, "bold"), cost + reused, f"Files: {swept.store.folder}")
    if swept.message:
        say(swept.message)
    return swept.exit_code
