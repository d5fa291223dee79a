"""normexp pack, unpack: the runs of sweeps as small files, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

Folder = Annotated[Path, typer.Argument(help="The folder of a sweep, or one of sweeps.", show_default=False)]


def pack(folder: Folder, plugin: common.Plugins = None) -> None:
    """Put all runs of a sweep into one small file beside them, runs.tar.xz: to keep, to send, to go on elsewhere.

    It holds records, logs, losses and layers to the last digit, but no weights, and no gradient norm of an update.
    """
    from normexp.commands.show import say, show
    from normexp.config.labels import plural
    from normexp.errors import EXIT_OK, EXIT_RUNS_FAILED, UserError
    from normexp.storage import index
    from normexp.storage import packs as packing
    from normexp.storage.store import Store

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


def unpack(folder: Folder, plugin: common.Plugins = None) -> None:
    """Restore a sweep's runs from its runs.tar.xz; what is there already is left as it is."""
    from normexp.commands.show import show
    from normexp.errors import UserError
    from normexp.storage import index

    paths = index.packs(folder)
    if not paths:
        raise UserError(f"{folder} has no runs.tar.xz, and no sweep in it has: `normexp pack` makes one")
    for path in paths:
        show(restore(path))


def restore(path: Path) -> str:
    """Unpack one file; what came of it."""
    from normexp.config.labels import plural
    from normexp.storage import packs as packing

    restored = packing.unpack(path)
    kept = f", {restored.kept} there already" if restored.kept else ""
    return f"{restored.folder}: {plural(restored.runs, 'run')} restored from {path.name}{kept}"
