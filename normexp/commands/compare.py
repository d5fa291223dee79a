"""normexp compare: what differs between two sweeps, or between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common

if TYPE_CHECKING:
    from normexp.analysis.pairing import Side
    from normexp.records.record import RunRecord

PANEL = common.Panel.READ


def command(
    a: Annotated[str, typer.Argument(help="A sweep (its folder, or its name under --out), or a run (its id).")],
    b: Annotated[str | None, typer.Argument(help="Another one of the same sort.", show_default=False)] = None,
    along: Annotated[
        str | None,
        typer.Option(metavar="KEY=X,Y", help="Compare a sweep within itself: its points with X and those with Y."),
    ] = None,
    json: common.Json = False,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Keys that differ, outcome changes, paired differences of losses: of two sweeps or of two runs."""
    from normexp.analysis import comparison
    from normexp.analysis.pairing import halves
    from normexp.commands.options import show_json
    from normexp.errors import UserError
    from normexp.records.record import RunRecord
    from normexp.terminal import compare as runs
    from normexp.terminal import compare as sweeps
    from normexp.terminal.show import show

    if (b is None) is (along is None):
        raise UserError("give two sweeps, two runs, or one sweep with --along position=pre,post")
    one, other = _found(a, out), None if b is None else _found(b, out)
    if isinstance(one, RunRecord) and isinstance(other, RunRecord):
        two = runs.compare(one, other)
        show_json(runs.as_data(two)) if json else show(runs.run_comparison(two))
    elif isinstance(one, RunRecord) or isinstance(other, RunRecord):
        raise UserError("a run is compared with another run, and a sweep with a sweep or along one of its keys")
    else:
        sides = halves(one, along or "") if other is None else (one, other)
        found = comparison.compare(*sides)
        show_json(comparison.as_data(found)) if json else show(sweeps.comparison(found))


def _found(name: str, out: Path) -> Side | RunRecord:
    """The sweep of a folder, or of a name under `out`; else the run of this id. Raises UserError."""
    from normexp.analysis.pairing import side
    from normexp.report import report as reports
    from normexp.storage import index
    from normexp.storage.store import Store
    from normexp.terminal.show import warn

    for folder in (Path(name), out / name):
        store = Store(folder)
        if store.exists():
            plan, records = store.read_plan(), store.records()
            store.warnings += [f"{folder}: {told}" for told in reports.warnings(records, [])]
            for warning in store.warnings:
                warn(warning)
            return side(folder.resolve().name, str(folder), plan, records)
    store, record = index.find(out, name, sought="sweep or run of that name")
    for warning in store.warnings:
        warn(warning)
    return record
