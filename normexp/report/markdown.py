"""summary.md and collapse.md: the same text tables as on the terminal, in GitHub's Markdown.

A page in GitHub's Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape as plain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from normexp.analysis.tables import NO_RUNS, TextTable, cell_table, reference_losses
from normexp.config.labels import shown
from normexp.config.plan import Plan
from normexp.report.page import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points

if TYPE_CHECKING:
    import pandas as pd


def markdown(page: Page) -> str:
    """The whole page; pictures are linked."""
    return "\n\n".join([f"# {escape(page.title)}", *map(_text, page.blocks)]) + "\n"


def _text(block: Block) -> str:
    return _WRITERS[type(block)](block)


def _paragraph(block: Paragraph) -> str:
    return f"> **{escape(block.text)}**" if block.warning else _block_line(block.text)


def _points(block: Points) -> str:
    marks = [f"{number}." if block.numbered else "-" for number in range(1, len(block.items) + 1)]
    leads = [f"**{escape(lead)}** " for lead in block.leads] or [""] * len(block.items)
    lines = zip(marks, leads, block.items, strict=True)
    return "\n".join(f"{mark} {lead}{escape(item) if lead else _block_line(item)}" for mark, lead, item in lines)


def _block_line(text: str) -> str:
    """A text that does not begin as a list or a quotation would."""
    escaped = escape(text)
    return f"\\{escaped}" if escaped[:1] in (">", "-", "+", "~") else escaped


def _picture(block: Picture) -> str:
    return f"![{escape(block.text)}]({quote(block.path)})"


def _commands(block: Commands) -> str:
    lines = "\n".join(map(shown, block.lines))
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", lines)), 0)
    return f"{fence}\n{lines}\n{fence}"


def _folded(block: Folded) -> str:
    inner = "\n\n".join(map(_text, block.blocks))
    title = plain(" ".join(shown(block.title).split()))
    return f"<details><summary>{title}</summary>\n\n{inner}\n\n</details>"


_WRITERS: Mapping[type[Block], Callable[[Any], str]] = {
    Heading: lambda block: f"{'#' * block.level} {escape(block.text)}",
    Paragraph: _paragraph,
    Points: _points,
    Grid: lambda block: table_text(block.table),
    Picture: _picture,
    Commands: _commands,
    Folded: _folded,
}


def document(
    plan: Plan, conclusion: str, pivots: Sequence[TextTable], summary: pd.DataFrame, warnings: Sequence[str]
) -> str:
    """Title, conclusion, pivots, cells, reference losses, warnings."""
    blocks = [f"# {escape(plan.title or plan.name)}", escape(conclusion)]
    for table in pivots:
        blocks += [f"## {escape(table.title)}"] if table.title else []
        blocks += [table_text(table)] + ([escape(table.note)] if table.note else [])
    blocks += ["## Cells", table_text(cell_table(plan, summary))]
    references = reference_losses(summary)
    blocks += [escape(references)] if references else []
    if warnings:
        blocks += ["## Warnings", "\n".join(f"- {escape(warning)}" for warning in warnings)]
    return "\n\n".join(blocks) + "\n"


def worded_tables(words: str, tables: Sequence[TextTable]) -> str:
    """A sentence, and each table below its title."""
    blocks = [escape(words), *(f"## {escape(table.title)}\n\n{table_text(table)}" for table in tables)]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in one line and in one cell."""
    one_line = " ".join(shown(text).split())
    return re.sub(r"([\\|`*_\[\]#])", r"\\\1", one_line).replace("&", "&amp;").replace("<", "&lt;")


def table_text(table: TextTable) -> str:
    """A table in Markdown, without its title."""
    lines = [_line(table.header), _line(["---"] * len(table.header), raw=True)]
    lines += [_line(row) for row in table.rows]
    return "\n".join(lines) + ("" if table.rows else f"\n\n{NO_RUNS}")


def _line(cells: Sequence[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(cells if raw else map(escape, cells))} |"
