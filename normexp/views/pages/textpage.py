"""A page in GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape as plain
from typing import Any
from urllib.parse import quote

from normexp.labels import shown
from normexp.views.markdown import escape, table_text
from normexp.views.pages.page import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points


def markdown(page: Page) -> str:
    """The whole page; pictures are linked."""
    return "\n\n".join([f"# {escape(page.title)}", *map(_text, page.blocks)]) + "\n"


def _text(block: Block) -> str:
    return _WRITERS[type(block)](block)


def _paragraph(block: Paragraph) -> str:
    return f"> **{escape(block.text)}**" if block.warning else _line(block.text)


def _points(block: Points) -> str:
    marks = [f"{number}." if block.numbered else "-" for number in range(1, len(block.items) + 1)]
    leads = [f"**{escape(lead)}** " for lead in block.leads] or [""] * len(block.items)
    lines = zip(marks, leads, block.items, strict=True)
    return "\n".join(f"{mark} {lead}{escape(item) if lead else _line(item)}" for mark, lead, item in lines)


def _line(text: str) -> str:
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
