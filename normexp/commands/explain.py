"""normexp explain."""

from __future__ import annotations

from normexp.commands import options as common

PANEL = common.Panel.READ


def command(run_id: common.RunId, out: common.Out = common.OUT, plugin: common.Plugins = None) -> None:
    """One run's story: outcome, the rule and numbers that decided it, first bad tensor, nearest healthy neighbour."""
    from normexp.analysis.collapse import signal
    from normexp.analysis.explain import story
    from normexp.storage import index
    from normexp.terminal.console import Encodable, ResponsiveTable
    from normexp.terminal.show import show, warn

    store, record = index.find(out, run_id)
    found = record.run_id
    told = "\n".join(story(record, store.records().values()))
    show(Encodable(told), f"  stored in: {store.folder / 'runs' / found}")
    if record.traces is not None and record.traces.layers:
        show(ResponsiveTable(signal("RMS of the stream by layer", record.traces)))
    for warning in dict.fromkeys([*store.warnings, *store.damaged({found: record}, thoroughly=True)]):
        warn(warning)
