"""normexp pack."""

from __future__ import annotations

import typer

from normexp.commands import options as common

PANEL = common.Panel.MACHINES


def command(folder: common.SweepFolder, plugin: common.Plugins = None) -> None:
    """Put all runs of a sweep into one small file beside them, runs.tar.xz: to keep, to send, to go on elsewhere.

    It holds records, logs, losses and layers to the last digit, but no weights, and no gradient norm of an update.
    """
    from normexp.config.labels import plural
    from normexp.errors import EXIT_OK, EXIT_RUNS_FAILED, UserError
    from normexp.storage import index
    from normexp.storage import packs as packing
    from normexp.storage.store import Store
    from normexp.terminal.show import say, show

    stores = [Store(folder)] if Store(folder).exists() else list(index.sweeps(folder))
    if not stores:
        raise UserError(f"{folder} is no sweep's folder, and holds none: `normexp list` names those under results")
    whole = True
    for store in stores:
        packed = packing.pack(store, stores)
        whole = whole and not packed.warnings
        for warning in packed.warnings:
            say(f"warning: {warning}")
        show(f"{packed.path}: {plural(packed.runs, 'run')}, {packed.size_bytes / 1e6:.2f} MB")
    raise typer.Exit(EXIT_OK if whole else EXIT_RUNS_FAILED)  # who packs and then removes may go by it
