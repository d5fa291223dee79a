"""A page as a list of blocks, which `normexp.report.markdown` and `normexp.report.html` write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from normexp.analysis.tables import TextTable


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 2 to 4. The title of the page is level 1."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of plain text. A `warning` is highlighted."""

    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """A list, `numbered` if the order matters. `leads` are put in front of the items, in bold."""

    items: tuple[str, ...]
    numbered: bool = False
    leads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. `marks` holds a word for each row, by which the web page colours it.

    If `sorts` is set, the web page can sort it by any column, and filter it. `curves` holds the data of the curve that
    is drawn on a click on the first cell of a row, by the text of that cell (see `normexp.report.sweep_page`).
    """

    table: TextTable
    marks: tuple[str, ...] = ()
    sorts: bool = False
    curves: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG image: its path relative to the page, its caption, and its bytes."""

    path: str
    text: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines of code, such as shell commands."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are collapsed until the reader opens them."""

    title: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Points | Grid | Picture | Commands | Folded


@dataclass(frozen=True, slots=True)
class Page:
    """A title and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def headings(self) -> Iterator[tuple[str, Heading]]:
        """The headings with their anchors: `s1`, `s2`, ..."""
        headings = [block for block in self.blocks if isinstance(block, Heading)]
        return ((f"s{number}", heading) for number, heading in enumerate(headings, start=1))


def grids(tables: Sequence[TextTable], *, sorts: bool = False) -> Iterator[Block]:
    """Yield tables, with their titles as headings and their notes below."""
    for table in tables:
        if table.title:
            yield Heading(table.title, 4)
        yield Grid(table, sorts=sorts)
        if table.note:
            yield Paragraph(table.note)
