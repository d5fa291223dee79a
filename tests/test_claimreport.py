"""The report of claims: all that was found is on the page, in Markdown and HTML alike, and says how it was found."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
import records as made

from normexp.claims.claim import Citation, Claim, ClaimFile, Finding, Kind, Word
from normexp.claims.verdict import Verdict, judge
from normexp.plan import Pivot, Plan, Published
from normexp.record import RunRecord
from normexp.views.pages import claimreport, takeaways
from normexp.views.pages.page import Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points
from normexp.views.pages.sheets import Sheet, in_order, missing, settings
from normexp.views.pages.textpage import markdown
from normexp.views.pages.webpage import html
from normexp.views.pivot import TextTable

SETTINGS = ("as written", "as described")
VOID = {"meta", "img"}


def claim(name: str, kind: Kind = Kind.SWEEP, section: str = "6.2", **rest: object) -> Claim:
    settings = SETTINGS if kind is Kind.SWEEP else ("",)
    known: dict[str, object] = {"text": f"What {name} says", "stated": f"{name}'s figure", "place": "mine.yaml:1"}
    if kind is Kind.SWEEP:
        known |= {"settings": settings, "sweeps": ("made_up",)}
    return Claim(id=f"mine.{name}", section=section, kind=kind, **(known | rest))  # type: ignore[arg-type]


def by_runs(name: str, *holds: bool | None, runs: int = 3, quick: bool = False, **rest: object) -> Verdict:
    found = [
        Finding(
            holds=held,
            measured=f"{name} {held}",
            sentence="so it is",
            setting=setting,
            seeds=3,
            run_ids=tuple(f"{name}-{setting[3:]}-{number}" for number in range(runs)),
        )
        for held, setting in zip(holds, SETTINGS, strict=True)
    ]
    return judge(claim(name, **rest), found, quick=quick)


def cited(name: str, *, own: bool) -> Verdict:
    citation = Citation(source="a paper", says="otherwise", agrees=False, own=own)
    return judge(claim(name, Kind.CITED, section="7.1", citation=citation), [])


def every_word(quick: bool = False) -> list[Verdict]:
    """One claim of each verdict, and a calculation."""
    computed = Finding(holds=True, measured="4096", sentence="counted", seeds=1)
    return [
        by_runs("holds", True, True, quick=quick, note="with a | in it"),
        by_runs("partly", True, False, quick=quick),
        by_runs("fails", False, False, quick=quick),
        by_runs("thin", True, None, quick=quick),
        judge(claim("counted", Kind.COMPUTE, seeds=1), [computed], quick=quick),
        cited("quoted", own=False),
        cited("twice", own=True),
    ]


@pytest.fixture
def plan() -> Plan:
    published = Published(where={"norm": "none", "lr": 1e-2}, text="NaN near step 300", source="section 6.2")
    return made.plan(
        {"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1]},
        depth=2,
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[published],
    )


def sheet(plan: Plan, ends: Sequence[str]) -> Sheet:
    records: dict[str, RunRecord] = {}
    for (run_id, config), how in zip(plan.configs.items(), ends, strict=True):
        record = made.end(config, how)
        if record is not None:
            records[run_id] = record
    return Sheet(plan=plan, records=records, pictures={"curves": b"\x89PNG picture"})


FULL = ("1.9", "2.1", "2.4", "2.6", "1.8", "plateau", "nan@12", "nan@33")


def page(sheets: dict[str, Sheet], verdicts: list[Verdict], scale: float = 1.0) -> Page:
    claims = tuple(verdict.claim for verdict in verdicts)
    file = ClaimFile(name="mine", title="My claims", path=Path("mine.yaml"), sweeps={}, claims=claims)
    return claimreport.page(file, verdicts, sheets, scale=scale)


class Reader(HTMLParser):
    """The text of a page; fails where a tag is not closed in its place, or something is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        assert {link.removeprefix("#") for link in self.links} <= set(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert tag not in ("script", "link", "iframe")
        assert tag != "img" or (found["src"] or "").startswith("data:image/png;base64,")
        self.ids += [value for key, value in attrs if key == "id" and value]
        self.links += [value for key, value in attrs if key == "href" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def plain(text: str) -> str:
    """Markdown without its backslashes."""
    return re.sub(r"\\(.)", r"\1", text)


def test_every_verdict_is_on_the_page_with_what_is_stated_and_measured(plan: Plan) -> None:
    verdicts = every_word()
    assert {verdict.word for verdict in verdicts} == set(Word)
    shown = page({"made_up": sheet(plan, FULL)}, verdicts)
    for text in (plain(markdown(shown)), Reader(html(shown)).text):
        for verdict in verdicts:
            assert verdict.text in text
            assert verdict.claim.text in text
            assert verdict.claim.stated in text
        assert "as written: partly True; as described: partly False" in text
        assert "a paper: otherwise" in text
        assert "7 claims: 2 reproduced, 1 only when, 1 not reproduced, 1 misquoted" in text
        assert "mine.holds: with a | in it." in text
        assert "(quick)" not in text
        assert "Missing" not in text


def test_the_counts_add_up(plan: Plan) -> None:
    shown = page({}, every_word())
    table = next(block for block in shown.blocks if isinstance(block, Grid)).table
    assert table.header == ("verdict", "it means", "by runs", "by calculation", "by its source", "claims")
    assert [row[0] for row in table.rows] == [word.value for word in Word]
    assert [sum(int(row[column]) for row in table.rows) for column in (2, 3, 4, 5)] == [4, 1, 2, 7]
    assert all(int(row[5]) == sum(map(int, row[2:5])) for row in table.rows)


def test_tables_stand_beside_what_the_text_prints(plan: Plan) -> None:
    shown = page({"made_up": sheet(plan, FULL)}, every_word())
    for text in (plain(markdown(shown)), Reader(html(shown)).text):
        assert "2.000 ± 0.141 (2)" in text
        assert "2 of 2 nan @12–33 [NaN near step 300]" in text
        assert "In brackets: section 6.2." in text
        assert "0.729 to 3.271" in text, "the interval of 1.9 and 2.1"
    told = [block for block in shown.blocks if isinstance(block, Grid) and block.table.header[-1] == "stated"]
    assert [row[0] for row in told[0].table.rows] == ["mine.holds", "mine.partly", "mine.fails", "mine.thin"]


def test_missing_cells_are_named(plan: Plan) -> None:
    lacking = sheet(plan, ["1.9", "pending", "2.4", "2.6", "failed", "killed", "nan@12", "nan@33"])
    assert lacking.lacking == 3
    assert missing(lacking) == ["norm ln, lr 0.001: 1 of 2 runs", "norm none, lr 0.001: 2 of 2 runs"]
    assert missing(sheet(plan, ["pending"] * 8)) == ["all: none of 8 runs is done"]
    assert missing(sheet(plan, FULL)) == []
    text = plain(markdown(page({"made_up": lacking}, every_word())))
    assert "made_up: 3 of 8 runs in 2 cells" in text
    assert "norm none, lr 0.001: 2 of 2 runs" in text
    assert "made_up: 8 of 8 runs in all cells" in plain(
        markdown(page({"made_up": sheet(plan, ["pending"] * 8)}, every_word()))
    )


def test_stale_runs_are_missing(plan: Plan) -> None:
    records = {run_id: made.done(config, 1.9, numerics=0) for run_id, config in plan.configs.items()}
    assert missing(Sheet(plan=plan, records=records, pictures={})) == ["all: none of 8 runs is done"]


def test_quick_runs_are_called_quick_on_top_and_at_each_verdict(plan: Plan) -> None:
    verdicts = every_word(quick=True)
    shown = page({"made_up": sheet(plan, FULL)}, verdicts, scale=0.03)
    assert shown.title == "My claims (quick)"
    first = shown.blocks[0]
    assert isinstance(first, Paragraph)
    assert first.warning
    assert "0.03 of the steps, and one seed" in first.text
    rows = [row for block in shown.blocks if isinstance(block, Grid) and block.marks for row in block.table.rows]
    told = [row for row in rows if row[0] in {v.claim.id for v in verdicts if v.claim.kind is Kind.SWEEP}]
    assert len(told) == 8
    assert all("(quick)" in row[1] for row in told)
    assert all("Quick runs settle nothing" in item for item in takeaways.told(takeaways.chosen(verdicts)).items)
    assert "--quick" in markdown(shown)


def test_findings_are_chosen_by_the_rule() -> None:
    verdicts = [
        by_runs("few", True, True, runs=1, section="6.1"),
        by_runs("more", False, False, runs=4, section="6.1"),
        by_runs("undecided", None, None, runs=90, section="6.2"),
        by_runs("most", True, False, runs=7, section="6.3"),
        cited("quoted", own=True),
        by_runs("end", True, True, section="summary"),
        by_runs("thin", True, None, section="summary"),
        *(by_runs(f"of{number}", True, True, runs=1, section=f"8.{number}") for number in range(4)),
    ]
    found = takeaways.chosen(verdicts)
    assert [verdict.claim.id for verdict in found] == ["mine.end", "mine.most", "mine.more", "mine.of0", "mine.of1"]
    points = takeaways.told(found[:3])
    assert points.leads == (
        "“What end says” holds in every setting.",
        "“What most says” holds only as written.",
        "“What more says” holds in no setting.",
    )
    assert points.items[1] == (
        "Stated: most's figure. Measured, in 14 runs: as written: most True; as described: most False. Claim mine.most."
    )
    many = [by_runs(f"end{number}", True, True, section="summary") for number in range(7)]
    assert len(takeaways.chosen(many)) == takeaways.MOST
    assert "No claim is decided by runs yet." in markdown(page({}, [by_runs("thin", None, None)]))


def test_sweeps_stand_in_the_section_most_of_whose_claims_read_them(plan: Plan) -> None:
    claims = [
        claim("a", section="2.3", sweeps=("b", "c")),
        claim("b", section="6.2", sweeps=("a",)),
        claim("c", section="6.3", sweeps=("b",)),
        claim("d", section="6.3", sweeps=("b", "a")),
        claim("e", section="6.2", sweeps=("a",)),
    ]
    one = sheet(plan, FULL)
    assert in_order({"unread": one, "a": one, "b": one, "c": one}, claims) == ["c", "a", "b", "unread"]


def test_settings_are_told_by_what_sets_them_apart(plan: Plan) -> None:
    def labelled(label: str, **base: object) -> Sheet:
        made_up = made.plan({"depth": [6, 12], "seed": [0, 1, 2]}, label=label, **base)
        return Sheet(plan=made_up, records={}, pictures={})

    sheets = [labelled("as written", mixer="linear", order=1), labelled("as described", mixer="mean")]
    assert settings(sheets) == {
        "as written": "mixer linear, pos_embed none, order 1",
        "as described": "mixer mean, pos_embed learned, order 2",
    }
    more = [*sheets, labelled("as written", mixer="linear", order=2, lr=0.5)]
    assert settings(more)["as written"] == "mixer linear, pos_embed none", "half of its points have another order"
    assert settings([sheet(plan, FULL)]) == {}


def test_a_verdict_that_is_not_as_expected_is_told(plan: Plan) -> None:
    shown = page({}, [by_runs("fails", False, False, expected=Word.REPRODUCED)])
    assert "mine.fails: not reproduced, but the file expects reproduced" in markdown(shown)


def test_verdicts_are_a_table_too() -> None:
    verdicts = every_word(quick=True)
    rows = list(csv.DictReader(claimreport.to_csv(verdicts).splitlines()))
    assert [row["verdict"] for row in rows] == [verdict.word.value for verdict in verdicts]
    assert [row["quick"] for row in rows] == ["True"] * 4 + ["False"] * 3
    assert rows[1]["when"] == "as written"
    assert rows[1]["run_ids"].split(" ")[0] == "partly-written-0"
    assert rows[0]["seeds"] == "3"


def test_blocks_are_written_safely_in_both_forms() -> None:
    odd = "a <b> | *c* & `d`\nnext"
    blocks = (
        Heading(odd, 2),
        Paragraph(odd, warning=True),
        Paragraph("- no list"),
        Points((odd, "two"), numbered=True),
        Points((odd,), leads=(odd,)),
        Grid(TextTable(title="", header=(odd, "x"), rows=((odd, "1"),)), ("not reproduced",)),
        Grid(TextTable(title="", header=("x",), rows=())),
        Picture("6.2+seed=0/figures/a b.png", odd, b"png"),
        Commands(("normexp claims 'a b.yaml' && true",)),
        Folded(odd, (Paragraph("inside"),)),
    )
    shown = Page(odd, blocks)
    text = Reader(html(shown)).text
    assert text.count("a <b> | *c* & `d` next") == 12
    assert "normexp claims 'a b.yaml' && true" in text
    assert 'class="not-reproduced"' in html(shown)
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
