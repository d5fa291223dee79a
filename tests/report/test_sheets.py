"""The sweeps in a report of claims: tables with published values, missing cells, settings, and their order."""

from __future__ import annotations

import pytest
import records as made
from claimpages import FULL, Reader, claim, every_word, page, plain, published_plan, sheet

from normexp.config.plan import Plan
from normexp.report.claims_report import Sheet, in_order, missing, settings
from normexp.report.html import html
from normexp.report.markdown import markdown
from normexp.report.page import Grid


@pytest.fixture
def plan() -> Plan:
    return published_plan()


def test_tables_stand_beside_what_the_text_prints(plan: Plan) -> None:
    shown = page({"made_up": sheet(plan, FULL)}, every_word())
    for text in (plain(markdown(shown)), Reader(html(shown)).text):
        assert "2.000 ± 0.141 (2)" in text
        assert "2/2 nan @12–33 [NaN near step 300]" in text
        assert "In brackets: section 6.2." in text
        assert "0.729 to 3.271" in text, "the interval of 1.9 and 2.1"
    told = [block for block in shown.blocks if isinstance(block, Grid) and block.table.header[-1] == "stated"]
    assert [row[0] for row in told[0].table.rows] == [
        "mine.holds",
        "mine.partly",
        "mine.fails",
        "mine.open",
        "mine.thin",
    ]


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
        "as written": {"mixer": "linear", "pos_embed": "none", "order": 1},
        "as described": {"mixer": "mean", "pos_embed": "learned", "order": 2},
    }
    more = [*sheets, labelled("as written", mixer="linear", order=2, lr=0.5)]
    assert settings(more)["as written"] == {"mixer": "linear", "pos_embed": "none"}, "half have another order"
    assert settings([sheet(plan, FULL)]) == {}
