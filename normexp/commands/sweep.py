"""normexp sweep: run a grid of configs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.RUN
EXAMPLE = "normexp sweep configs/lr_scan.yaml depth=20 lr=1e-3,3e-3 --dry-run"


def command(
    config: Annotated[Path, typer.Argument(help="YAML file; normexp collapse --help lists every key.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value overrides the file; lr=1e-3,1e-2 makes an axis.", show_default=False),
    ] = None,
    out: common.Out = common.OUT,
    jobs: common.Jobs = None,
    scale: Annotated[
        float,
        typer.Option(
            parser=common.number(),
            metavar="<float>",
            help="Scale steps, warmup and eval_every: 0.1 makes runs ten times shorter.",
        ),
    ] = 1.0,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only configs with key=value; repeatable; default: all.")
    ] = None,
    dry_run: common.DryRun = False,
    retry_failed: common.RetryFailed = False,
    rerun_outdated: Annotated[
        bool, typer.Option("--rerun-outdated", help="Rerun outdated runs, whose results differ in this version.")
    ] = False,
    force: common.Force = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop after the first failed run.")] = False,
    save_weights: Annotated[
        bool, typer.Option("--save-weights", help="Also store trained weights; rerun finished runs without weights.")
    ] = False,
    autograd: common.Autograd = False,
    max_runs: Annotated[int, typer.Option(min=1, help="Reject grids with more runs.")] = 10_000,
    timeout: common.Timeout = None,
    executor: common.Executor = "processes",
    scheduler: common.Scheduler = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run shard I of N into a separate folder (see normexp merge); default: all."),
    ] = None,
    plugin: common.Plugins = None,
) -> None:
    """Run the missing runs of a grid, then write its tables, figures and summary."""
    given = locals()
    from normexp.config import grid
    from normexp.config import sweep_file as configs
    from normexp.config.plan import parse_shard
    from normexp.runner.run_selection import Options
    from normexp.terminal.show import execute, say, show_dry_run

    parsed_shard = parse_shard(shard) if shard is not None else None
    plan = grid.plan(configs.load(config, overrides or (), scale=scale), max_runs=max_runs)
    plan = plan.part(parsed_shard) if parsed_shard else plan
    for warning in plan.warnings:
        say(f"warning: {warning}")
    options = Options.of(given, timeout_seconds=timeout, argv=sys.argv)
    if dry_run:
        show_dry_run(plan, options)
        return
    raise typer.Exit(execute(plan, options).exit_code)
