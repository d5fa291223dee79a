"""Write a page as a self-contained HTML file: style, script and pictures are embedded, and nothing is loaded.

The script sorts and filters tables, and draws the curves of runs.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from importlib import resources
from typing import Any

from normexp.analysis.tables import NO_RUNS
from normexp.config.labels import shown
from normexp.report.page import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points

POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'"
"""The content security policy: a page loads nothing, and runs only its embedded script."""
JSON_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""Escapes for JSON, so that data cannot close the element that holds it."""


@functools.cache
def style() -> str:
    """Return the text of page.css."""
    return resources.files(__package__).joinpath("page.css").read_text("utf-8")


@functools.cache
def script() -> str:
    """Return the text of page.js."""
    return resources.files(__package__).joinpath("page.js").read_text("utf-8")


def html(page: Page) -> str:
    """Return the text of the HTML file."""
    anchors = iter(page.headings)
    body = "\n".join(
        _heading(block, next(anchors)[0]) if isinstance(block, Heading) else _text(block) for block in page.blocks
    )
    script = _script(page)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}{_script_source(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_words(page.title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_words(page.title)}</h1>\n{_contents(page)}{body}\n</main>\n"
        f"{_curves(page)}{f'<script>{script}</script>' if script else ''}\n</body>\n</html>\n"
    )


def _script(page: Page) -> str:
    """Return the script if the page has a sortable table, else an empty text."""
    return script() if any(isinstance(block, Grid) and block.sorts for block in page.blocks) else ""


def _script_source(script: str) -> str:
    """Return the part of the policy that allows this script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"; script-src 'sha256-{digest}'" if script else ""


def _curves(page: Page) -> str:
    """Return the element with the data of the curves that the script draws."""
    curves: dict[str, Any] = {}
    for block in page.blocks:
        curves |= block.curves if isinstance(block, Grid) else {}
    data = json.dumps(curves, allow_nan=False, separators=(",", ":")).translate(JSON_IN_HTML)
    return f'<script type="application/json" id="curves">{data}</script>\n' if curves else ""


def _contents(page: Page) -> str:
    items = "".join(
        f'<li class="l{heading.level}"><a href="#{anchor}">{_words(heading.text)}</a></li>\n'
        for anchor, heading in page.headings
        if heading.level < 4
    )
    return f"<nav>\n<details><summary>Contents</summary>\n<ul>\n{items}</ul>\n</details>\n</nav>\n" if items else ""


def _text(block: Block) -> str:
    return _WRITERS[type(block)](block)


def _words(text: str) -> str:
    return escape(" ".join(shown(text).split()))


def _heading(block: Heading, anchor: str = "") -> str:
    named = f' id="{anchor}"' if anchor else ""
    return f"<h{block.level}{named}>{_words(block.text)}</h{block.level}>"


def _paragraph(block: Paragraph) -> str:
    kind = ' class="warning"' if block.warning else ""
    return f"<p{kind}>{_words(block.text)}</p>"


def _points(block: Points) -> str:
    kind = "ol" if block.numbered else "ul"
    leads = [f"<strong>{_words(lead)}</strong> " for lead in block.leads] or [""] * len(block.items)
    items = "".join(f"<li>{lead}{_words(item)}</li>\n" for lead, item in zip(leads, block.items, strict=True))
    return f"<{kind}>\n{items}</{kind}>"


def _grid(block: Grid) -> str:
    """Return a table. On narrow screens, a table with marked rows becomes a list of cards, and any other scrolls."""
    if not block.table.rows:
        return f"<p>{NO_RUNS}</p>"
    head = "".join(f'<th scope="col">{_words(name)}</th>' for name in block.table.header)
    rows = "".join(_rows(block))
    kind = "cards" if block.marks and not block.sorts else "scroll"
    sorts = ' class="sorts"' if block.sorts else ""
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>"
    return f'<div class="{kind}">\n<table{sorts}>\n{body}\n</table>\n</div>'


def _rows(block: Grid) -> Iterator[str]:
    marks = block.marks or ("",) * len(block.table.rows)
    for row, mark in zip(block.table.rows, marks, strict=True):
        named = f' class="{re.sub("[^a-z]+", "-", mark.lower())}"' if mark else ""
        cells = "".join(
            f'<td data-name="{_words(name)}">{_words(cell)}</td>'
            for name, cell in zip(block.table.header[1:], row[1:], strict=True)
        )
        first = _words(row[0])
        if row[0] in block.curves:
            first = f'<button type="button" class="run" data-run="{first}">{first}</button>'
        yield f'<tr{named}><th scope="row">{first}</th>{cells}</tr>\n'


def _picture(block: Picture) -> str:
    data = base64.b64encode(block.data).decode()
    return (
        f'<figure><img alt="{_words(block.text)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_words(block.text)}</figcaption></figure>"
    )


def _folded(block: Folded) -> str:
    inner = "\n".join(map(_text, block.blocks))
    return f"<details>\n<summary>{_words(block.title)}</summary>\n{inner}\n</details>"


_WRITERS: Mapping[type[Block], Callable[[Any], str]] = {
    Heading: _heading,
    Paragraph: _paragraph,
    Points: _points,
    Grid: _grid,
    Picture: _picture,
    Commands: lambda block: f"<pre>{escape(shown(chr(10).join(block.lines)))}</pre>",
    Folded: _folded,
}
