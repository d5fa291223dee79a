"""Print to the terminal: progress and warnings on standard error, results on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rich.console import Console, RenderableType
from rich.text import Text

from normexp.analysis import collapse
from normexp.config.labels import duration, plural
from normexp.config.plan import Exclusion, Plan
from normexp.execution.executors import workers_to_count_on
from normexp.report import report, shards
from normexp.runner import sampling
from normexp.runner.run_selection import Options, work_of
from normexp.runner.sweep import Swept, check, run_sweep
from normexp.storage import index
from normexp.storage.store import Store
from normexp.terminal import console
from normexp.terminal.live import CollapseView, View, ended_text, names_of


def screen() -> Console:
    """Return a console on standard error that does not interpret markup."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """Print a line on standard error. Does nothing if it is closed."""
    with suppress(OSError):
        _line(screen(), text)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {text}")


def show(*parts: RenderableType) -> None:
    """Print results. Plain text is not wrapped, so that paths can be copied."""
    output = console.output()
    for part in parts:
        if isinstance(part, str):
            _line(output, part)
        else:
            output.print(part)


def _line(target: Console, text: str) -> None:
    target.print(Text(console.encodable(text, target.encoding)), soft_wrap=True)


def execute(plan: Plan, options: Options) -> Swept:
    """Run a plan under the live view, then print its report and folder."""
    swept = run_sweep(plan, options, View(screen(), names_of(plan), options.out / plan.folder))
    written = "Tables" if swept.stopped else "Tables and figures"
    show(console.console(swept.report), f"{written}: {swept.store.folder}")
    if swept.message:
        say(swept.message)
    return swept


def show_dry_run(plan: Plan, options: Options) -> None:
    """Print the numbers of points and runs, what is stored, and an estimate of the time."""
    losses = check(plan, options)
    store = Store(options.out / plan.folder)
    store.check(plan, force=options.force)
    records = store.records() if store.exists() else {}
    work = work_of(plan, store, records, options)
    whole = plan.whole or plan
    points, runs = len(whole.points), len(whole.configs)
    again = f" ({work.without_weights} of them finished without weights)" if work.without_weights else ""
    jobs = workers_to_count_on(options.jobs, options.scheduler)
    seconds, basis = sampling.seconds(work.todo, index.records(options.out).values(), options, losses)
    show(
        f"{plan.name}: {plural(points, 'config')}, {plural(runs, 'run')}, {plural(points - runs, 'duplicate')}",
        *excluded_lines(plan.excluded),
        *([shards.share(plan)] if plan.shard else []),
        f"{ended_text(work.done, work.failed)}, {len(work.reusable)} in other sweeps, {len(work.todo)} to do{again}",
        f"about {duration(seconds)} with {plural(jobs, 'worker')} ({basis})",
        f"folder: {store.folder}",
    )


def excluded_lines(excluded: Sequence[Exclusion], where: str = "") -> list[str]:
    """Return a line per entry of `exclude` with the number of configs that it removes."""
    return [f"exclude {entry.entry} removes {plural(entry.points, 'config')}{where}" for entry in excluded]


def execute_collapse(plan: Plan, options: Options) -> int:
    """Run a collapse plan under the live view, then print its tables and conclusion. Return the exit code."""
    options = replace(options, watched=screen().is_terminal)
    swept = run_sweep(plan, options, CollapseView(screen(), names_of(plan), options.out / plan.folder))
    records = swept.report.records
    tables = collapse.tables(plan, records, report.collapse_examples(swept.store, plan, records))
    conclusion = console.Encodable(swept.report.conclusion, "bold")
    show(*(console.ResponsiveTable(table) for table in tables), conclusion, f"Files: {swept.store.folder}")
    if swept.message:
        say(swept.message)
    return swept.exit_code
