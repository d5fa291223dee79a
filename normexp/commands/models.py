"""normexp models: show how mainstream models normalize."""

from __future__ import annotations

from typing import Annotated

import typer

from normexp.commands import options

PANEL = options.Panel.REFERENCE
EXAMPLE = "normexp models llama --norm rms"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Model names (substring match); quote names with spaces."),
    ] = None,
    norm: Annotated[str, typer.Option(help="Only models with this norm, e.g. rms (substring match).")] = "",
    position: Annotated[str, typer.Option(help="Only models with this placement, e.g. pre (substring match).")] = "",
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with the verification status of each cell.")] = False,
) -> None:
    """List how mainstream models normalize, with sources and the config keys that build the same block."""
    from normexp.schemes.models import load, select
    from normexp.terminal import models as view
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show

    chosen = select(load(), names or (), norm=norm, position=position)
    if csv:
        typer.echo(view.to_csv(chosen), nl=False)
    else:
        show(ResponsiveTable(view.model_table(chosen)))
