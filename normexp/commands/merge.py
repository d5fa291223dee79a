"""normexp merge: join the shards of a sweep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.MACHINES
EXAMPLE = "normexp merge results/lr_scan.shard-1-of-2 results/lr_scan.shard-2-of-2"


def command(
    folders: Annotated[list[Path], typer.Argument(help="Folders of one sweep, such as its shards.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder; default: the sweep's name, beside the first of the folders."),
    ] = None,
    plugin: common.Plugins = None,
) -> None:
    """Join the shards of a sweep into one folder. If two results of a run differ, nothing is written."""
    from normexp.config.labels import plural
    from normexp.runner.merge import merge as join
    from normexp.terminal import console
    from normexp.terminal.show import say, show

    merged = join(folders, out, tuple(sys.argv))
    for warning in merged.warnings:
        say(f"warning: {warning}")
    if merged.report is not None:
        show(console.console(merged.report))
    show(f"{merged.store.folder}: {plural(merged.copied, 'run')} copied, {merged.kept} already there")
    for line in merged.messages:
        say(line)
    raise typer.Exit(merged.exit_code)
