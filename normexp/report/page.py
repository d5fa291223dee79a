"""A page as a list of blocks, which `textpage` and `webpage` each write in their own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from normexp.analysis.tables import TextTable


@dataclass(frozen=True, slots=True)
class Heading:
    """`level` 2 to 4; the page's title alone is of level 1."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain text; a `warning` stands out."""

    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """A list; `numbered` where the order tells something. `leads` stand before the items, in bold."""

    items: tuple[str, ...]
    numbered: bool = False
    leads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. `marks`: a word for each row, by which a web page colours it.

    One that `sorts` does so on a web page, by any column, and is filtered there. `curves`: what the page draws on a
    click on the first cell of a row, by its text (see `normexp.report.sweep_page`).
    """

    table: TextTable
    marks: tuple[str, ...] = ()
    sorts: bool = False
    curves: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG: where it lies relative to the page, what it shows, and its bytes."""

    path: str
    text: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines for a shell."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are shown on demand."""

    title: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Points | Grid | Picture | Commands | Folded


@dataclass(frozen=True, slots=True)
class Page:
    """A title, and what stands below it."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def headings(self) -> Iterator[tuple[str, Heading]]:
        """Each heading with an anchor of its own: `s1`, `s2`, ..."""
        found = [block for block in self.blocks if isinstance(block, Heading)]
        return ((f"s{number}", heading) for number, heading in enumerate(found, start=1))


def grids(tables: Sequence[TextTable], *, sorts: bool = False) -> Iterator[Block]:
    """Tables with their titles as headings, each note below its table."""
    for table in tables:
        if table.title:
            yield Heading(table.title, 4)
        yield Grid(table, sorts=sorts)
        if table.note:
            yield Paragraph(table.note)
