"""normexp explain: show how one run ended, and why."""

from __future__ import annotations

from normexp.commands import options as common

PANEL = common.Panel.READ
EXAMPLE = "normexp explain d12-ln-post-attention-lr0.01-w0-s0"


def command(run_id: common.RunId, out: common.Out = common.OUT, plugin: common.Plugins = None) -> None:
    """Explain one run: its outcome, the deciding rule, the first non-finite tensor, the most similar healthy run."""
    from normexp.analysis.collapse import signal
    from normexp.analysis.explain import story
    from normexp.storage import index
    from normexp.terminal.console import Encodable, ResponsiveTable
    from normexp.terminal.show import show, warn

    store, record = index.find(out, run_id)
    lines = story(record, store.records().values())
    show(Encodable("\n".join(lines)), f"  stored in: {store.folder / 'runs' / record.run_id}")
    if record.traces is not None and record.traces.layers:
        show(ResponsiveTable(signal("RMS of the residual stream by layer", record.traces)))
    for warning in dict.fromkeys([*store.warnings, *store.damaged({record.run_id: record}, thoroughly=True)]):
        warn(warning)
