"""normexp export: write a sweep's results in formats of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.PAPER
EXAMPLE = "normexp export results/lr_scan --to latex"


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep, finished or not.", show_default=False)],
    to: Annotated[str, typer.Option(help="Format: tensorboard, latex, markdown, csv or parquet.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder, or file for .tex and .md; default: export/ in the sweep's folder."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    plugin: common.Plugins = None,
) -> None:
    """Export a sweep: LaTeX or Markdown tables, CSV or Parquet frames of runs and curves, or TensorBoard events."""
    from normexp.config.labels import plural
    from normexp.report import report as reports
    from normexp.report.export import exporter
    from normexp.storage import files as exported
    from normexp.storage.store import Store
    from normexp.terminal.show import say, show

    row, store = exporter(to), Store(folder)
    report = reports.read(store)
    for warning in report.warnings:
        say(f"warning: {warning}")
    target = out or folder / "export" / to
    if row.single and target.suffix != Path(row.single).suffix:
        target = target / row.single
    if not force:
        exported.refuse_what_is_there(target)
    files = row.files(report, store)
    paths = exported.write_exported((target if row.single else target / name, content) for name, content in files)
    show(str(target) if row.single else f"{target}: {plural(len(paths), 'file')}")
