"""Pages of blocks in Markdown and HTML: user text is never markup, and the HTML page is self-contained."""

from __future__ import annotations

import pytest
from claimpages import FULL, Reader, every_word, page, published_plan, sheet

from normexp.analysis.tables import TextTable
from normexp.config.plan import Plan
from normexp.report.html import html
from normexp.report.markdown import markdown
from normexp.report.page import Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points


@pytest.fixture
def plan() -> Plan:
    return published_plan()


def test_blocks_are_written_safely_in_both_forms() -> None:
    odd = "a <b> | *c* & `d`\nnext"
    blocks = (
        Heading(odd, 2),
        Paragraph(odd, warning=True),
        Paragraph("- no list"),
        Points((odd, "two"), numbered=True),
        Points((odd,), leads=(odd,)),
        Grid(TextTable(title="", header=(odd, "x"), rows=((odd, "1"),)), ("not enough runs",)),
        Grid(TextTable(title="", header=("x",), rows=())),
        Picture("6.2+seed=0/figures/a b.png", odd, b"png"),
        Commands(("normexp claims 'a b.yaml' && true",)),
        Folded(odd, (Paragraph("inside"),)),
    )
    shown = Page(odd, blocks)
    text = Reader(html(shown)).text
    assert text.count("a <b> | *c* & `d` next") == 12
    assert "normexp claims 'a b.yaml' && true" in text
    assert 'class="not-enough-runs"' in html(shown)
    assert "data:image/png;base64,cG5n" in html(shown)
    lines = markdown(shown).splitlines()
    assert r"# a &lt;b> \| \*c\* &amp; \`d\` next" in lines
    assert r"\- no list" in lines
    assert r"1. a &lt;b> \| \*c\* &amp; \`d\` next" in lines
    assert r"- **a &lt;b> \| \*c\* &amp; \`d\` next** a &lt;b> \| \*c\* &amp; \`d\` next" in lines
    assert lines.count("no runs") == 1
    assert "![a &lt;b> \\| \\*c\\* &amp; \\`d\\` next](6.2%2Bseed%3D0/figures/a%20b.png)" in lines
    assert "<details><summary>a &lt;b&gt; | *c* &amp; `d` next</summary>" in lines


def test_the_page_has_a_form_for_phones_and_needs_nothing_else(plan: Plan) -> None:
    text = html(page({"made_up": sheet(plan, FULL)}, every_word()))
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "@media (max-width: 45rem)" in text
    assert "://" not in text
    assert html(page({"made_up": sheet(plan, FULL)}, every_word())) == text
