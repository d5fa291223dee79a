"""Text tables for terminals and pipes. Nothing is cropped, and only characters that the output can encode are used."""

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
"""Width of output that is not a terminal: one line per row, however long."""

PLAIN = str.maketrans({"±": "+/-", "–": "-", "—": "-", "×": "x", "…": "..."})


class ResponsiveTable:
    """A text table in columns, or record by record if they do not fit. `narrow` is tried if `table` does not fit."""

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
    """A paragraph in characters that the output can encode, folded at its width.

    With `soft`, lines are not folded, so that they can be copied: the terminal wraps them. This needs a console with
    soft_wrap, such as `output`; on others, lines are folded, since rich would crop them.
    """

    def __init__(self, text: str, style: str = "", *, soft: bool = False) -> None:
        self.text, self.style, self.soft = text, style, soft

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        text = _text(self.text, options, style=self.style)
        if self.soft and options.no_wrap and options.overflow == "ignore":
            text.no_wrap, text.overflow = True, "ignore"
        yield text


def console(report: Report) -> RenderableType:
    """Return a report as text: title, pivots or else cells, reference losses, warnings, conclusion."""
    parts: list[RenderableType] = [Encodable(report.plan.title or report.plan.name, "bold")]
    tables: Sequence[TextTable] = report.pivots or [cell_table(report.plan, report.summary)]
    parts += [ResponsiveTable(table) for table in tables]
    references = reference_losses(report.summary)
    parts += [Encodable(references)] if references else []
    parts += [Encodable(f"warning: {warning}", "yellow") for warning in report.warnings]
    parts.append(Encodable(report.conclusion))
    return Group(*parts)


def output(file: TextIO | None = None) -> Console:
    """Return a console for results, by default on standard output, without a width limit if it is not a terminal.

    It crops nothing. The terminal wraps plain strings.
    """
    stream = sys.stdout if file is None else file
    terminal = Console(file=stream).is_terminal
    width = None if terminal else WIDE
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def encodable(text: str, encoding: str) -> str:
    """Return the text without control characters. Characters that the encoding lacks are replaced by similar ones."""
    text = shown(text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(PLAIN).encode(encoding, "replace").decode(encoding)
    return text


def _text(text: str, options: ConsoleOptions, style: str = "") -> Text:
    """Return text that is folded even if the options say no_wrap. Otherwise, rich would crop it."""
    return Text(encodable(text, options.encoding), style=style, overflow="fold", no_wrap=False)


def unpadded(table: Table, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
    """Yield a table, without trailing blanks if the output is not a terminal."""
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
        lines = [f"{name}: {cell}" for name, cell in zip(table.header, row, strict=True) if cell]
        yield _text("\n".join(lines) + "\n", options)
