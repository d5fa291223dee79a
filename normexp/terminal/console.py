"""Text tables on a terminal or in a pipe: never cut, and never more than the output can encode."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from normexp.analysis.tables import NO_RUNS, TextTable, cell_table, reference_losses
from normexp.config.labels import shown

if TYPE_CHECKING:
    from normexp.report.contents import Report

WIDE = 10_000
"""Columns where nobody looks at a screen: one line a row, however long."""

PLAIN = str.maketrans({"±": "+/-", "–": "-", "—": "-", "×": "x", "…": "..."})


class ResponsiveTable:
    """A text table, in columns where they fit the width, else record by record; or `narrow` where only that fits."""

    def __init__(self, table: TextTable, narrow: TextTable | None = None) -> None:
        self.table, self.narrow = table, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        table = self.table
        if self.narrow is not None and not _fits(_columns(table, options), console, options):
            table = self.narrow
        if table.title:
            yield _text(table.title, options, style="bold")
        if not table.rows:
            yield _text(NO_RUNS, options)
        else:
            columns = _columns(table, options)
            if _fits(columns, console, options):
                yield from unpadded(columns, console, options)
            else:
                yield Group(*_by_record(table, options))
        if table.note:
            yield _text(table.note, options)


class Encodable:
    """A paragraph in characters that the output has, folded at the width however it is printed.

    With `soft`, lines stay whole, to be copied: printed with soft_wrap (as `output` does), the terminal wraps them.
    Printed without, rich would crop them, so they are folded.
    """

    def __init__(self, text: str, style: str = "", *, soft: bool = False) -> None:
        self.text, self.style, self.soft = text, style, soft

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        text = _text(self.text, options, style=self.style)
        if self.soft and options.no_wrap and options.overflow == "ignore":
            text.no_wrap, text.overflow = True, "ignore"
        yield text


def console(report: Report) -> RenderableType:
    """A report for people: title, pivots, cells (where there is no pivot), reference losses, warnings, conclusion."""
    parts: list[RenderableType] = [Encodable(report.plan.title or report.plan.name, "bold")]
    tables: Sequence[TextTable] = report.pivots or [cell_table(report.plan, report.summary)]
    parts += [ResponsiveTable(table) for table in tables]
    references = reference_losses(report.summary)
    parts += [Encodable(references)] if references else []
    parts += [Encodable(f"warning: {warning}", "yellow") for warning in report.warnings]
    parts.append(Encodable(report.conclusion))
    return Group(*parts)


def output(file: TextIO | None = None) -> Console:
    """A console for results (standard output by default): as wide as the terminal, or unbounded where it is none.

    It crops nothing, and what has no wrapping of its own (a plain str) it leaves to the terminal to wrap.
    """
    stream = sys.stdout if file is None else file
    terminal = Console(file=stream).is_terminal
    width = None if terminal else WIDE
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def encodable(text: str, encoding: str) -> str:
    """The text without control characters and with what the encoding lacks replaced, by look-alikes where possible."""
    text = shown(text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(PLAIN).encode(encoding, "replace").decode(encoding)
    return text


def _text(text: str, options: ConsoleOptions, style: str = "") -> Text:
    """Folded even where options say no_wrap: rich would cut what is neither wrapped nor ignored."""
    return Text(encodable(text, options.encoding), style=style, overflow="fold", no_wrap=False)


def unpadded(table: Table, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
    """A table as it is on a terminal; elsewhere, where it has no styles, without the blanks at the ends of its rows."""
    if console.is_terminal:
        yield table
        return
    for line in console.render_lines(table, options, pad=False):
        yield Segment("".join(segment.text for segment in line).rstrip() + "\n")


def _fits(columns: Table, console: Console, options: ConsoleOptions) -> bool:
    return console.measure(columns, options=options.update(width=sys.maxsize)).maximum <= options.max_width


def _columns(table: TextTable, options: ConsoleOptions) -> Table:
    columns = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, safe_box=True)
    for name in table.header:
        columns.add_column(_text(name, options), no_wrap=True)
    for row in table.rows:
        columns.add_row(*(_text(cell, options) for cell in row))
    return columns


def _by_record(table: TextTable, options: ConsoleOptions) -> Iterator[Text]:
    for row in table.rows:
        told = [f"{name}: {cell}" for name, cell in zip(table.header, row, strict=True) if cell]
        yield _text("\n".join(told) + "\n", options)
