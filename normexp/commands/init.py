"""normexp init: write a starter config and a starter plugin."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.RUN
EXAMPLE = "normexp init my_norms"


def command(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; created if needed.")] = Path(),
    examples: Annotated[
        bool, typer.Option("--examples", help="Also write the configs and examples that normexp brings.")
    ] = False,
) -> None:
    """Write a starter sweep and a plugin with a norm of your own. Existing files are never overwritten."""
    from normexp.storage import starter_files
    from normexp.terminal.show import show

    starter = starter_files.starter()
    written = starter_files.write_new(folder, starter | (starter_files.shipped() if examples else {}))
    config = next(path for path in written if path.name == "starter.yaml")
    show(*map(str, written), f"Next: normexp sweep {shlex.quote(str(config))}")
