"""normexp list: show the stored sweeps."""

from __future__ import annotations

from normexp.commands import options as common

PANEL = common.Panel.READ
EXAMPLE = "normexp list"


def command(out: common.Out = common.OUT, json: common.Json = False, plugin: common.Plugins = None) -> None:
    """List the sweeps in the results folder with their progress."""
    from normexp.analysis.tables import TextTable
    from normexp.commands.options import show_json
    from normexp.storage import index
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show

    index.check(out)
    statuses, packed, below = index.statuses(out), index.packed(out), index.below(out)
    if json:
        sweeps = [
            {"sweep": s.folder, "runs": s.runs, "ended": s.ended, "results": s.results, "fault": s.fault or None}
            for s in statuses
        ]
        elsewhere = {"packed": [path.name for path in packed], "more_in": [str(path) for path in below]}
        show_json({"schema": 1, "out": str(out), "sweeps": sweeps, **elsewhere})
        return
    rows = [(s.folder, f"{s.ended}/{'?' if s.runs is None else s.runs}", s.summary) for s in statuses]
    if rows:
        show(ResponsiveTable(TextTable(title="", header=("sweep", "ended", "results"), rows=tuple(rows))))
    elif not packed and not below:
        show(f"no sweeps under {out}: `normexp collapse` or `normexp sweep FILE.yaml` creates one")
    if packed:
        show(f"packed: {', '.join(path.name for path in packed)}: `normexp unpack {out}` restores them")
    show(*(f"more sweeps in {path}: `normexp list --out {path}` lists them" for path in below))
