"""normexp compare: show differences between two sweeps, two runs, or two values of one key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common

if TYPE_CHECKING:
    from normexp.analysis.comparison import Side
    from normexp.records.record import RunRecord

PANEL = common.Panel.READ
EXAMPLE = "normexp compare results/lr_scan --along position=pre,post"


def command(
    a: Annotated[str, typer.Argument(help="A sweep (its folder, or its name under --out), or a run id.")],
    b: Annotated[str | None, typer.Argument(help="A second sweep or run.", show_default=False)] = None,
    along: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=X,Y", help="Compare two values of a key in one sweep: runs with KEY=X and runs with KEY=Y."
        ),
    ] = None,
    json: common.Json = False,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Compare two sweeps or two runs: keys that differ, changed outcomes, and paired loss differences."""
    from normexp.analysis import comparison
    from normexp.analysis.comparison import halves
    from normexp.commands.options import show_json
    from normexp.errors import UserError
    from normexp.records.record import RunRecord
    from normexp.terminal import compare as view
    from normexp.terminal.show import show

    if (b is None) is (along is None):
        raise UserError("give two sweeps, two runs, or one sweep with --along position=pre,post")
    first, second = _find(a, out), None if b is None else _find(b, out)
    if isinstance(first, RunRecord) and isinstance(second, RunRecord):
        runs = view.compare(first, second)
        show_json(view.as_data(runs)) if json else show(view.run_comparison(runs))
    elif isinstance(first, RunRecord) or isinstance(second, RunRecord):
        raise UserError("cannot compare a run with a sweep: give two runs, two sweeps, or one sweep with --along")
    else:
        sides = halves(first, along or "") if second is None else (first, second)
        sweeps = comparison.compare(*sides)
        show_json(comparison.as_data(sweeps)) if json else show(view.comparison(sweeps))


def _find(name: str, out: Path) -> Side | RunRecord:
    """Return the sweep with this folder or name under `out`, else the run with this id. Raises UserError."""
    from normexp.analysis.comparison import side
    from normexp.report import report as reports
    from normexp.storage import index
    from normexp.storage.store import Store
    from normexp.terminal.show import warn

    for folder in (Path(name), out / name):
        store = Store(folder)
        if store.exists():
            plan, records = store.read_plan(), store.records()
            store.warnings += [f"{folder}: {warning}" for warning in reports.warnings(records, [])]
            for warning in store.warnings:
                warn(warning)
            return side(folder.resolve().name, str(folder), plan, records)
    store, record = index.find(out, name, sought="sweep or run with this name")
    for warning in store.warnings:
        warn(warning)
    return record
