"""A page as one HTML file that needs nothing beside it: no script, no network, its pictures inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from normexp.views.labels import shown
from normexp.views.markdown import NO_RUNS
from normexp.views.pages import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points

STYLE = """\
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
h3 { margin-top: 2rem; }
p, li { max-width: 50rem; overflow-wrap: anywhere; }
li { margin: .3rem 0; }
nav ul { list-style: none; padding-left: 0; }
nav li.l3 { padding-left: 1.2rem; }
.warning { background: #fa04; border-left: 4px solid #c60; font-weight: 600; padding: .5rem .8rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; }
thead th { border-bottom-width: 2px; }
tbody th { font-weight: 500; }
tr[class] td:nth-child(2) { border-left: 4px solid var(--mark); padding-left: .5rem; }
.reproduced { --mark: #090; }
.only-when { --mark: #c90; }
.not-reproduced, .misquoted, .self-contradicting { --mark: #c22; }
.not-enough-runs { --mark: #888; }
pre { background: var(--soft); overflow-x: auto; padding: .6rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; }
figure { margin: 1rem 0; }
figure img { background: #fff; height: auto; max-width: 100%; }
figcaption { font-size: .85rem; }
@media (max-width: 45rem) {
  .cards thead { display: none; }
  .cards table, .cards tbody { display: block; }
  .cards tr, .cards th, .cards td { border: 0; display: block; padding: 0; }
  .cards tr { border-bottom: 1px solid var(--line); padding: .6rem 0; }
  .cards tr[class] { border-left: 4px solid var(--mark); padding-left: .6rem; }
  .cards tr[class] td:nth-child(2) { border: 0; font-weight: 600; padding: 0; }
  .cards td[data-name]::before { content: attr(data-name) ": "; font-size: .8rem; opacity: .7; }
  .cards th, .cards td { overflow-wrap: anywhere; }
}
"""


def html(page: Page) -> str:
    """The whole file."""
    anchors = iter(page.headings)
    body = "\n".join(
        _heading(block, next(anchors)[0]) if isinstance(block, Heading) else _text(block) for block in page.blocks
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_words(page.title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_words(page.title)}</h1>\n{_contents(page)}{body}\n</main>\n</body>\n</html>\n"
    )


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
    """A table whose rows are marked becomes a list of cards on a narrow screen; any other one scrolls."""
    if not block.table.rows:
        return f"<p>{NO_RUNS}</p>"
    head = "".join(f'<th scope="col">{_words(name)}</th>' for name in block.table.header)
    rows = "".join(_rows(block))
    kind = "cards" if block.marks else "scroll"
    return f'<div class="{kind}">\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>'


def _rows(block: Grid) -> Iterator[str]:
    marks = block.marks or ("",) * len(block.table.rows)
    for row, mark in zip(block.table.rows, marks, strict=True):
        named = f' class="{re.sub("[^a-z]+", "-", mark.lower())}"' if mark else ""
        cells = "".join(
            f'<td data-name="{_words(name)}">{_words(cell)}</td>'
            for name, cell in zip(block.table.header[1:], row[1:], strict=True)
        )
        yield f'<tr{named}><th scope="row">{_words(row[0])}</th>{cells}</tr>\n'


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
