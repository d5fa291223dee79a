"""normexp plot: draw figures of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.PAPER
EXAMPLE = "normexp plot results/lr_scan --kind sensitivity --width column"


def _list_kinds(kind: str | None) -> str | None:
    if kind == "list":
        from normexp.plots.kinds import KINDS

        typer.echo("\n".join(f"{name}: {row.help}" for name, row in KINDS.items()))
        raise typer.Exit
    return kind


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep, finished or not.")],
    kind: Annotated[
        str | None,
        typer.Option(
            help="Kind of figure; `list` shows all kinds; default: the figures of the report.",
            is_eager=True,
            callback=_list_kinds,
        ),
    ] = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="AXIS", help="Axis along x; default: depends on the kind.")
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            "--y",
            metavar="AXIS",
            help="Axis along y of a map, otherwise loss or fraction; default: depends on the kind.",
        ),
    ] = None,
    facet: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AXIS",
            help="One panel per value; AXIS,AXIS for two axes; none for a single panel; default: "
            "axes that do not fit into one panel.",
        ),
    ] = None,
    color: Annotated[str, typer.Option(help="Colour of a map: outcome or fraction.")] = "outcome",
    only: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only runs with this value; repeatable; default: all.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title; default: title of the sweep; '' for no title.")
    ] = None,
    theme: Annotated[str, typer.Option(help="light, dark, or light,dark for both.")] = "light",
    format: Annotated[
        str | None, typer.Option("--format", help="svg, png or pdf, separated by commas; default: svg,png.")
    ] = None,
    width: Annotated[str, typer.Option(help="column (3.3 inches) or full (7 inches).")] = "full",
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Output folder or file; default: figures/ in the sweep's folder, as NAME-own, NAME-column or "
            "NAME-dark if the figure differs from that of the report.",
        ),
    ] = None,
    plugin: common.Plugins = None,
) -> None:
    """Draw a sweep: loss curves, LR sensitivity, maps of outcomes, signal by layer; with the plotted data as CSV."""
    from normexp.report import figure_requests
    from normexp.storage.store import Store
    from normexp.terminal.show import say, show

    request = figure_requests.read(
        kind=kind,
        x=x,
        y=y,
        facets=facet,
        color=color,
        only=only or (),
        title=title,
        themes=theme,
        formats=format,
        width=width,
        to=to,
    )
    drawn = figure_requests.plot(Store(folder), request)
    for warning in drawn.warnings:
        say(f"warning: {warning}")
    show(*(str(path) for path in drawn.paths))
