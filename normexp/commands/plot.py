"""normexp plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from normexp.commands import options as common

PANEL = common.Panel.PAPER


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep, finished or not.")],
    kind: Annotated[
        str | None,
        typer.Option(help="curves, sensitivity, map, depth, signal or speed; default: those that its report has."),
    ] = None,
    x: Annotated[str | None, typer.Option("--x", metavar="AXIS", help="The axis along x.")] = None,
    y: Annotated[
        str | None, typer.Option("--y", metavar="AXIS", help="The axis along y of a map; else loss or fraction.")
    ] = None,
    facet: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS", help="A panel for each value; AXIS,AXIS for two; none for one panel."),
    ] = None,
    color: Annotated[str, typer.Option(help="What colours a map: outcome or fraction.")] = "outcome",
    only: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only the runs that have it.")] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The title; default: that of the sweep; '' for none.")
    ] = None,
    theme: Annotated[str, typer.Option(help="light, dark, or light,dark for both.")] = "light",
    format: Annotated[
        str | None, typer.Option("--format", help="svg, png or pdf; several with commas; default: svg,png.")
    ] = None,
    width: Annotated[str, typer.Option(help="column (3.3 inches) or full (7 inches).")] = "full",
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A folder, or a file's name; default: the sweep's figures/, as NAME-own, NAME-column, NAME-dark where "
            "it differs from the report's.",
        ),
    ] = None,
    plugin: common.Plugins = None,
) -> None:
    """Draw a sweep: losses, sensitivity to the learning rate, outcomes over two axes, layers; with the data as CSV."""
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
