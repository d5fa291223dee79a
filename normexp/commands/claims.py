"""normexp claims: a text put to the test, claim by claim."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common

if TYPE_CHECKING:
    from normexp.claims.claim import Claim, ClaimFile, Verdict
    from normexp.runner.run_selection import Options

PANEL = common.Panel.CLAIMS


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE] [ID]...",
            help="A claims file, or article or papers; ids of claims, or how they begin: article.6.2.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Run what the claims lack first; then --report.")] = False,
    report: Annotated[
        bool,
        typer.Option("--report", help="Write REPORT.md and report.html, of all claims, into the runs' folder."),
    ] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Write what full runs decide into the file, as the verdicts that it expects."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the runs; default: results/ and the file's name.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Shortened runs of one seed, in a folder of their own: they settle nothing.")
    ] = False,
    scale: Annotated[
        float | None,
        typer.Option(
            parser=common.number(low=1e-4, high=0.99),
            metavar="<float>",
            help="How short quick runs are, 0.03 of their steps by default, 0.0001 to 0.99; implies --quick.",
        ),
    ] = None,
    checks: Annotated[
        bool, typer.Option("--checks", help="List what a claims file may name: checks, measures, calculations.")
    ] = False,
    jobs: common.Jobs = None,
    executor: common.Executor = "processes",
    scheduler: common.Scheduler = None,
    json: common.Json = False,
    plugin: common.Plugins = None,
) -> None:
    """Each claim of a text with its verdict: from stored runs, a calculation made now, or its source.

    Runs that are there in runs.tar.xz alone are restored first.
    Exits with 3 where a verdict on full runs differs from the one that the file expects.
    """
    from normexp.claims import evaluate, update_expected
    from normexp.claims.claim import Word
    from normexp.claims.evidence import QUICK_SCALE
    from normexp.claims.files import beside, choose, folder_of
    from normexp.commands.options import show_json
    from normexp.config.labels import plural
    from normexp.errors import EXIT_VERDICT_DIFFERS, UserError
    from normexp.runner.run_selection import Options
    from normexp.terminal import claims as view
    from normexp.terminal.show import show, warn

    if checks:
        show(view.vocabulary())
        return
    file, chosen, one = choose(names or ())
    shortened = (scale or QUICK_SCALE) if quick or scale else 1.0
    if report and (one or len(chosen) < len(file.claims)):
        raise UserError("--report: the report is of all claims of a file: leave out the ids")
    if accept and shortened != 1.0:
        raise UserError("--accept: quick runs settle nothing: leave out --quick and --scale")
    folder = out or folder_of(file, shortened)
    _restore(folder)
    options = Options(
        out=folder,
        jobs=jobs,
        executor=executor,
        scheduler=scheduler,
        retry_failed=True,
        rerun_outdated=True,
        beside=beside(folder),
        argv=tuple(sys.argv),
    )
    aside = redirect_stdout(sys.stderr) if json else nullcontext()
    with aside:
        failed = _run(file, chosen, shortened, options, one) if run else 0
        verdicts = evaluate.judged(file, chosen, folder, scale=shortened, warn=warn)
    if one and not json:
        show(view.detail(verdicts[0], evaluate.commands(file, verdicts[0].claim, folder, shortened), folder))
    elif not json:
        show(view.listing(verdicts, file.title))
    if not json and any(verdict.word is Word.NOT_ENOUGH for verdict in verdicts):
        asked = ["normexp", "claims", *(names or ()), "--run"]
        asked += [] if shortened == 1.0 else ["--quick"] if shortened == QUICK_SCALE else ["--scale", f"{shortened:g}"]
        asked += ["--out", str(out)] if out else []
        _tell_missing(file, chosen, shortened, options, asked, one)
    refused = None
    if accept:
        try:
            accepted = update_expected.accept(file, verdicts)
            with aside:
                show(f"{file.path}: {plural(len(accepted), 'verdict')} written as expected")
            file, verdicts = update_expected.read_again(file, verdicts)
        except UserError as fault:
            refused = fault  # what was run for hours still gets its report
    if json:
        show_json(view.as_data(file, verdicts))
    if not one and (report or (run and len(chosen) == len(file.claims))):
        with aside:
            _report(file, verdicts, folder, shortened, redraw=not run)
    if refused is not None:
        raise refused
    differs = any(verdict.differs for verdict in verdicts)
    raise typer.Exit(failed or (EXIT_VERDICT_DIFFERS if differs else 0))


def _tell_missing(
    file: ClaimFile, chosen: list[Claim], scale: float, options: Options, asked: list[str], one: bool
) -> None:
    """Say how many runs are missing, how long they take, and what to run. Without missing runs, say nothing."""
    from normexp.claims import evaluate
    from normexp.claims.files import called, shipped
    from normexp.config import plugins
    from normexp.config.labels import duration, plural
    from normexp.execution.executors import workers_to_count_on
    from normexp.runner import time_left
    from normexp.storage import index
    from normexp.terminal import claims as view
    from normexp.terminal.show import show

    lacking, needed = evaluate.missing(file, chosen, options.out, scale, alone=one)
    if not lacking:
        return
    jobs = workers_to_count_on(options.jobs, options.scheduler)
    pace = time_left.pace(index.records(options.out).values())
    seconds = time_left.seconds(lacking, pace, jobs)
    name = called(file)
    packed = name if scale == 1.0 and name in shipped() and not index.packs(options.out) else ""
    takes = f"about {duration(seconds)} with {plural(jobs, 'worker')}"
    command = shlex.join(asked) + plugins.options()
    show(view.missing(len(lacking), needed, options.out, takes, command, packed_elsewhere=packed))


def _restore(folder: Path) -> None:
    """Unpack what packs hold and their folders lack. Where other runs are there, a fault is no more than a warning."""
    from normexp.commands.unpack import restore
    from normexp.errors import UserError
    from normexp.storage import index
    from normexp.storage.store import Store
    from normexp.terminal.show import say

    for path in index.waiting(folder):
        try:
            say(restore(path))
        except UserError as fault:
            if not Store(path.parent).exists():
                raise
            say(f"warning: {fault}")


def _report(file: ClaimFile, verdicts: list[Verdict], folder: Path, scale: float, *, redraw: bool) -> None:
    from normexp.report import claims_report
    from normexp.terminal.show import show

    paths = claims_report.write(file, verdicts, folder, scale=scale, redraw=redraw)
    show(f"Report: {' and '.join(map(str, paths))}")


def _run(file: ClaimFile, chosen: list[Claim], scale: float, options: Options, one: bool) -> int:
    """Run the sweeps that the claims read, in the file's order; of one claim, its points alone. The exit code."""
    from normexp.claims import evaluate
    from normexp.errors import EXIT_RUNS_FAILED
    from normexp.terminal.show import execute

    worst = 0
    for plan, only in evaluate.work(file, chosen, scale, alone=one):
        swept = execute(plan, replace(options, only=only))
        if swept.stopped or swept.exit_code not in (0, EXIT_RUNS_FAILED):
            raise typer.Exit(swept.exit_code)
        worst = max(worst, swept.exit_code)
    return worst
