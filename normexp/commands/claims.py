"""normexp claims: check the claims of a text."""

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
EXAMPLE = "normexp claims article.4.2.share"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE] [ID]...",
            help="A claims file, or article or papers; then claim ids or prefixes of ids: article.6.2.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="First run the missing runs; implies --report unless ids are given.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option("--report", help="Write REPORT.md and report.html for all claims into the folder of the runs."),
    ] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Write the verdicts of full runs into the claims file as expected verdicts."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the runs; default: results/NAME for a claims file NAME.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use shortened runs of one seed, in a separate folder; not conclusive.")
    ] = False,
    scale: Annotated[
        float | None,
        typer.Option(
            parser=common.number(low=1e-4, high=0.99),
            metavar="<float>",
            help="Length of quick runs relative to full runs, 0.0001 to 0.99; default: 0.03. Implies --quick.",
        ),
    ] = None,
    checks: Annotated[
        bool, typer.Option("--checks", help="List the checks, measures and calculations of claims files.")
    ] = False,
    jobs: common.Jobs = None,
    executor: common.Executor = "processes",
    scheduler: common.Scheduler = None,
    json: common.Json = False,
    plugin: common.Plugins = None,
) -> None:
    """Check each claim of a text against stored runs, a calculation or its source, and print the verdicts.

    Packed runs (runs.tar.xz) are restored first.
    Exits with 3 if a verdict on full runs differs from the one that the file expects.
    """
    given = locals()
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
    file, chosen, single = choose(names or ())
    shortened = (scale or QUICK_SCALE) if quick or scale else 1.0
    if report and (single or len(chosen) < len(file.claims)):
        raise UserError("--report: the report covers all claims of a file: leave out the ids")
    if accept and shortened != 1.0:
        raise UserError("--accept: quick runs are not conclusive: leave out --quick and --scale")
    folder = out or folder_of(file, shortened)
    _restore(folder)
    options = Options.of(
        given, out=folder, retry_failed=True, rerun_outdated=True, beside=beside(folder), argv=sys.argv
    )
    aside = redirect_stdout(sys.stderr) if json else nullcontext()
    with aside:
        failed = _run(file, chosen, shortened, options, single) if run else 0
        verdicts = evaluate.judged(file, chosen, folder, scale=shortened, warn=warn)
    if single and not json:
        show(view.detail(verdicts[0], evaluate.commands(file, verdicts[0].claim, folder, shortened), folder))
    elif not json:
        show(view.listing(verdicts, file.title))
    if not json and any(verdict.word is Word.NOT_ENOUGH for verdict in verdicts):
        command = ["normexp", "claims", *(names or ()), "--run"]
        if shortened != 1.0:
            command += ["--quick"] if shortened == QUICK_SCALE else ["--scale", f"{shortened:g}"]
        command += ["--out", str(out)] if out else []
        _show_missing(file, chosen, shortened, options, command, single)
    not_accepted = None
    if accept:
        try:
            accepted = update_expected.accept(file, verdicts)
            with aside:
                show(f"{file.path}: {plural(len(accepted), 'expected verdict')} written")
            file, verdicts = update_expected.read_again(file, verdicts)
        except UserError as fault:
            not_accepted = fault  # raised after the report is written: the runs may have taken hours
    if json:
        show_json(view.as_data(file, verdicts))
    if not single and (report or (run and len(chosen) == len(file.claims))):
        with aside:
            _report(file, verdicts, folder, shortened, redraw=not run)
    if not_accepted is not None:
        raise not_accepted
    differs = any(verdict.differs for verdict in verdicts)
    raise typer.Exit(failed or (EXIT_VERDICT_DIFFERS if differs else 0))


def _show_missing(
    file: ClaimFile, chosen: list[Claim], scale: float, options: Options, words: list[str], single: bool
) -> None:
    """Print how many runs are missing, how long they take, and the command that runs them, if any are missing."""
    from normexp.claims import evaluate
    from normexp.claims.files import called, shipped
    from normexp.config import plugins
    from normexp.config.labels import duration, plural
    from normexp.execution.executors import workers_to_count_on
    from normexp.runner import time_left
    from normexp.storage import index
    from normexp.terminal import claims as view
    from normexp.terminal.show import show

    lacking, needed = evaluate.missing(file, chosen, options.out, scale, alone=single)
    if not lacking:
        return
    jobs = workers_to_count_on(options.jobs, options.scheduler)
    pace = time_left.pace(index.records(options.out).values())
    seconds = time_left.seconds(lacking, pace, jobs)
    name = called(file)
    packed = name if scale == 1.0 and name in shipped() and not index.packs(options.out) else ""
    takes = f"about {duration(seconds)} with {plural(jobs, 'worker')}"
    command = shlex.join(words) + plugins.options()
    show(view.missing(len(lacking), needed, options.out, takes, command, packed_elsewhere=packed))


def _restore(folder: Path) -> None:
    """Restore packed runs that are missing. If the folder has other runs, a damaged pack is only a warning."""
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


def _run(file: ClaimFile, chosen: list[Claim], scale: float, options: Options, single: bool) -> int:
    """Run the sweeps that the claims need, in the file's order; for a single claim, only its points.

    Return the exit code.
    """
    from normexp.claims import evaluate
    from normexp.errors import EXIT_RUNS_FAILED
    from normexp.terminal.show import execute

    worst = 0
    for plan, only in evaluate.work(file, chosen, scale, alone=single):
        swept = execute(plan, replace(options, only=only))
        if swept.stopped or swept.exit_code not in (0, EXIT_RUNS_FAILED):
            raise typer.Exit(swept.exit_code)
        worst = max(worst, swept.exit_code)
    return worst
