"""normexp schemes: show the norm placements and norms."""

from __future__ import annotations

from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.REFERENCE
EXAMPLE = "normexp schemes --depth 50"


def command(
    depth: Annotated[int, typer.Option(min=1, help="Depth at which the constants are evaluated.")] = 20,
    plugin: common.Plugins = None,
) -> None:
    """List the norm placements (key position) and norms (key norm), with formulas, constants and sources."""
    from normexp.terminal import models as tables
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show

    show(ResponsiveTable(tables.schemes(depth)), ResponsiveTable(tables.norms()))
