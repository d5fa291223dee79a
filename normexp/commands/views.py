"""normexp list, report, schemes: what is stored, and what can be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common


def list_sweeps(out: common.Out = common.OUT, json: common.Json = False, plugin: common.Plugins = None) -> None:
    """The sweeps under the results folder, and how far each has come."""
    from normexp.analysis.tables import TextTable
    from normexp.commands.options import show_json
    from normexp.commands.show import show
    from normexp.storage import index
    from normexp.terminal.console import Uncut

    index.check(out)
    shelves, packed, below = index.shelves(out), index.packed(out), index.below(out)
    if json:
        found = [
            {"sweep": s.folder, "runs": s.runs, "ended": s.ended, "results": s.results, "fault": s.fault or None}
            for s in shelves
        ]
        elsewhere = {"packed": [path.name for path in packed], "more_in": [str(path) for path in below]}
        show_json({"schema": 1, "out": str(out), "sweeps": found, **elsewhere})
        return
    rows = [(s.folder, f"{s.ended}/{'?' if s.runs is None else s.runs}", s.told) for s in shelves]
    if rows:
        show(Uncut(TextTable(title="", header=("sweep", "ended", "results"), rows=tuple(rows))))
    elif not packed and not below:
        show(f"no sweeps under {out}: `normexp collapse` or `normexp sweep FILE.yaml` makes one")
    if packed:
        show(f"packed: {', '.join(path.name for path in packed)}: `normexp unpack {out}` restores them")
    show(*(f"more sweeps in {path}: normexp list --out {path}" for path in below))


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep, finished or not.")],
    figures: Annotated[bool, typer.Option("--figures", help="Draw the figures and the web page again, too.")] = False,
    plugin: common.Plugins = None,
) -> None:
    """Make a sweep's tables again from what is on disk, and print them."""
    from normexp.commands.show import show
    from normexp.report import report as reports
    from normexp.storage.store import Store
    from normexp.terminal.console import console

    show(console(reports.rebuild(Store(folder), figures=figures)))


def schemes(
    depth: Annotated[int, typer.Option(min=1, help="Depth for which constants are printed.")] = 20,
    plugin: common.Plugins = None,
) -> None:
    """The tables of schemes (key position) and of norms (key norm), with constants at a depth and sources."""
    from normexp.commands.show import show
    from normexp.terminal import models as tables
    from normexp.terminal.console import Uncut

    show(Uncut(tables.schemes(depth)), Uncut(tables.norms()))
