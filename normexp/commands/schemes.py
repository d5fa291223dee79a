"""normexp schemes."""

from __future__ import annotations

from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.REFERENCE


def command(
    depth: Annotated[int, typer.Option(min=1, help="Depth for which constants are printed.")] = 20,
    plugin: common.Plugins = None,
) -> None:
    """The tables of schemes (key position) and of norms (key norm), with constants at a depth and sources."""
    from normexp.terminal import models as tables
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show

    show(ResponsiveTable(tables.schemes(depth)), ResponsiveTable(tables.norms()))
