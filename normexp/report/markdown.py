"""Write pages, and the tables of summary.md and collapse.md, in GitHub-flavoured Markdown."""

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
    """Return the Markdown of a page. Pictures are linked."""
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
    """Escape a text so that it does not start a list or a quotation."""
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
    """Return the text of summary.md: title, conclusion, pivots, cells, reference losses and warnings."""
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


def worded_tables(sentence: str, tables: Sequence[TextTable]) -> str:
    """Return a sentence, followed by tables with their titles as headings."""
    blocks = [escape(sentence), *(f"## {escape(table.title)}\n\n{table_text(table)}" for table in tables)]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Escape text for one line, or one cell of a table."""
    one_line = " ".join(shown(text).split())
    return re.sub(r"([\\|`*_\[\]#])", r"\\\1", one_line).replace("&", "&amp;").replace("<", "&lt;")


def table_text(table: TextTable) -> str:
    """Return a table in Markdown, without its title."""
    lines = [_line(table.header), _line(["---"] * len(table.header), raw=True)]
    lines += [_line(row) for row in table.rows]
    return "\n".join(lines) + ("" if table.rows else f"\n\n{NO_RUNS}")


def _line(cells: Sequence[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(cells if raw else map(escape, cells))} |"
