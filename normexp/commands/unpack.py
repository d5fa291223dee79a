"""normexp unpack: restore packed runs."""

from __future__ import annotations

from pathlib import Path

from normexp.commands import options as common

PANEL = common.Panel.MACHINES
EXAMPLE = "normexp unpack results/lr_scan"


def command(folder: common.SweepFolder, plugin: common.Plugins = None) -> None:
    """Restore a sweep's runs from its runs.tar.xz. Existing runs are not changed."""
    from normexp.errors import UserError
    from normexp.storage import index
    from normexp.terminal.show import show

    paths = index.packs(folder)
    if not paths:
        raise UserError(f"neither {folder} nor a sweep in it has a runs.tar.xz: `normexp pack` writes one")
    for path in paths:
        show(restore(path))


def restore(path: Path) -> str:
    """Unpack one file and return a line that says what was restored."""
    from normexp.config.labels import plural
    from normexp.storage import packs as packing

    restored = packing.unpack(path)
    kept = f", {restored.kept} already there" if restored.kept else ""
    return f"{restored.folder}: {plural(restored.runs, 'run')} restored from {path.name}{kept}"
