"""normexp pack: store a sweep's runs in one compressed file."""

from __future__ import annotations

import typer

from normexp.commands import options as common

PANEL = common.Panel.MACHINES
EXAMPLE = "normexp pack results/lr_scan"


def command(folder: common.SweepFolder, plugin: common.Plugins = None) -> None:
    """Pack all runs of a sweep into one small file, runs.tar.xz in its folder, to archive or to move them.

    The file holds exact records, logs, losses and layer signals, but no weights and no gradient norms of steps.
    """
    from normexp.config.labels import plural
    from normexp.errors import EXIT_OK, EXIT_RUNS_FAILED, UserError
    from normexp.storage import index
    from normexp.storage import packs as packing
    from normexp.storage.store import Store
    from normexp.terminal.show import say, show

    stores = [Store(folder)] if Store(folder).exists() else list(index.sweeps(folder))
    if not stores:
        raise UserError(f"{folder} is not a sweep's folder and contains none: `normexp list` shows the stored sweeps")
    complete = True
    for store in stores:
        packed = packing.pack(store, stores)
        complete = complete and not packed.warnings
        for warning in packed.warnings:
            say(f"warning: {warning}")
        show(f"{packed.path}: {plural(packed.runs, 'run')}, {packed.size_bytes / 1e6:.2f} MB")
    # Scripts that remove the runs after packing rely on this exit code.
    raise typer.Exit(EXIT_OK if complete else EXIT_RUNS_FAILED)
