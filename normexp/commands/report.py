"""normexp report: rebuild a sweep's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.READ
EXAMPLE = "normexp report results/lr_scan --figures"


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep, finished or not.")],
    figures: Annotated[bool, typer.Option("--figures", help="Also redraw the figures and the web page.")] = False,
    plugin: common.Plugins = None,
) -> None:
    """Rebuild a sweep's tables from the stored runs and print them."""
    from normexp.report import report as reports
    from normexp.storage.store import Store
    from normexp.terminal.console import console
    from normexp.terminal.show import show

    show(console(reports.rebuild(Store(folder), figures=figures)))
