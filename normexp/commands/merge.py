"""normexp merge: the shards of a sweep as one folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.MACHINES


def command(
    folders: Annotated[list[Path], typer.Argument(help="Folders of one sweep: its shards, or any others.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to join them into; default: that of the sweep, beside the first of them."),
    ] = None,
    plugin: common.Plugins = None,
) -> None:
    """Join the shards of a sweep into one folder, every run once; where two have other numbers, nothing is written."""
    from normexp.config.labels import plural
    from normexp.runner.merge import merge as join
    from normexp.terminal import console
    from normexp.terminal.show import say, show

    merged = join(folders, out, tuple(sys.argv))
    for warning in merged.warnings:
        say(f"warning: {warning}")
    if merged.report is not None:
        show(console.console(merged.report))
    show(f"{merged.store.folder}: {plural(merged.copied, 'run')} copied, {merged.kept} there already")
    for line in merged.told:
        say(line)
    raise typer.Exit(merged.exit_code)
