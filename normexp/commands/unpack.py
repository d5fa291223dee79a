"""normexp unpack."""

from __future__ import annotations

from pathlib import Path

from normexp.commands import options as common

PANEL = common.Panel.MACHINES


def command(folder: common.SweepFolder, plugin: common.Plugins = None) -> None:
    """Restore a sweep's runs from its runs.tar.xz; what is there already is left as it is."""
    from normexp.errors import UserError
    from normexp.storage import index
    from normexp.terminal.show import show

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
