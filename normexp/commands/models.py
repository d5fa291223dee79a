"""normexp models: how mainstream models normalize, and the keys that make their blocks here."""

from __future__ import annotations

from typing import Annotated

import typer

from normexp.commands import options

PANEL = options.Panel.REFERENCE


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Parts of models' names: any of them; quote a name of two words."),
    ] = None,
    norm: Annotated[str, typer.Option(help="Only models with this norm: rms, ln; a part will do.")] = "",
    position: Annotated[str, typer.Option(help="Only models with this position: pre, sandwich; a part will do.")] = "",
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with how far each cell was verified.")] = False,
) -> None:
    """How mainstream models normalize, from which source, and the keys that make the same block."""
    from normexp.schemes.models import load, select
    from normexp.terminal import models as view
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show

    chosen = select(load(), names or (), norm=norm, position=position)
    if csv:
        typer.echo(view.to_csv(chosen), nl=False)
    else:
        show(ResponsiveTable(view.model_table(chosen)))
