"""normexp factors: show which key of a crossed sweep decides how its runs end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.READ
EXAMPLE = "normexp factors results/lr_scan"


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep whose grid crosses two or more keys.")],
    event: Annotated[
        str, typer.Option(metavar="EVENT", help="What is counted: runs that `learned` or that stayed `finite`.")
    ] = "learned",
    json: common.Json = False,
    plugin: common.Plugins = None,
) -> None:
    """Show which key decides whether networks train: change one key at a time, and keep all others and the seed.

    For each key and each pair of its values, the table counts the runs that learned, the pairs of runs in which only
    one did, and the combinations of the other keys in which the result changes for most seeds.
    """
    from normexp.analysis import factors
    from normexp.analysis.comparison import side
    from normexp.commands.options import show_json
    from normexp.errors import UserError
    from normexp.storage.store import Store
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show, warn

    if event not in list(factors.Happened):
        raise UserError(f"--event {event}: write {' or '.join(factors.Happened)}")
    store = Store(folder)
    sweep = side(folder.resolve().name, str(folder), store.read_plan(), store.records())
    for warning in store.warnings:
        warn(warning)
    happened = factors.Happened(event)
    show_json(factors.as_data(sweep, happened)) if json else show(ResponsiveTable(factors.table(sweep, happened)))
