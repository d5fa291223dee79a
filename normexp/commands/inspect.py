"""normexp explain, normexp repro: one run."""

from __future__ import annotations

from typing import Annotated

import typer

from normexp.commands import options as common

RunId = Annotated[str, typer.Argument(help="A run id, a part of one that no other run has, or the path of its folder.")]


def explain(run_id: RunId, out: common.Out = common.OUT, plugin: common.Plugins = None) -> None:
    """One run's story: outcome, the rule and numbers that decided it, first bad tensor, nearest healthy neighbour."""
    from normexp.analysis.collapse import signal
    from normexp.analysis.explain import story
    from normexp.commands.show import show, warn
    from normexp.storage import index
    from normexp.terminal.console import Encodable, Uncut

    store, record = index.find(out, run_id)
    found = record.run_id
    told = "\n".join(story(record, store.records().values()))
    show(Encodable(told), f"  stored in: {store.folder / 'runs' / found}")
    if record.traces is not None and record.traces.layers:
        show(Uncut(signal("RMS of the stream by layer", record.traces)))
    for warning in dict.fromkeys([*store.warnings, *store.damaged({found: record}, thoroughly=True)]):
        warn(warning)


def repro(run_id: RunId, out: common.Out = common.OUT, plugin: common.Plugins = None) -> None:
    """Run a stored run again; say bit-identical, or the first step that differs. Exit code 1 if it differs."""
    from dataclasses import replace

    from normexp import api
    from normexp.commands.show import show, warn
    from normexp.execution.signals import stoppable
    from normexp.storage import index
    from normexp.storage.store import CURVE
    from normexp.terminal import repro as reproduction

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
