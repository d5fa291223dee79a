"""normexp repro: check that a stored run is reproducible."""

from __future__ import annotations

import typer

from normexp.commands import options as common

PANEL = common.Panel.READ
EXAMPLE = "normexp repro d12-ln-pre-attention-lr0.001-w0-s0"


def command(run_id: common.RunId, out: common.Out = common.OUT, plugin: common.Plugins = None) -> None:
    """Run a stored run again and report whether it is bit-identical, or the first step that differs (exit code 1)."""
    from dataclasses import replace

    from normexp import api
    from normexp.execution.signals import stoppable
    from normexp.storage import index
    from normexp.storage.store import CURVE
    from normexp.terminal import repro as reproduction
    from normexp.terminal.show import show, warn

    store, stored = index.find(out, run_id, traces=False)
    for warning in store.damaged({stored.run_id: stored}, thoroughly=True):
        warn(warning)
    curve = store.traces(stored.run_id, stored.result, only=(CURVE,), as_they_are=True)
    stored = replace(stored, traces=curve)
    reproduction.check(stored)
    with stoppable():
        now = api.run(stored.config, path=stored.repeated_by)
    show(stored.run_id, "\n".join(reproduction.verdict(stored, now)))
    raise typer.Exit(0 if reproduction.identical(stored, now) else 1)
