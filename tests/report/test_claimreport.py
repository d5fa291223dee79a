"""The report of claims: all that was found is on the page, in Markdown and HTML alike, and says how it was found."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from claimpages import FULL, Reader, by_runs, cited, every_word, page, plain, published_plan, sheet

from normexp.claims.claim import Kind, Word, judge
from normexp.config import grid
from normexp.config.plan import Plan
from normexp.records.outcome import RULES
from normexp.report import claims_report
from normexp.report.claims_report import Sheet
from normexp.report.html import html
from normexp.report.markdown import markdown
from normexp.report.page import Grid, Paragraph, Points


@pytest.fixture
def plan() -> Plan:
    return published_plan()


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


def test_the_words_of_the_tables_are_told_above_them(plan: Plan) -> None:
    told = markdown(page({"made_up": sheet(plan, FULL)}, every_word())).partition("## Tables")[2]
    assert all(f"- **{outcome}:** {rule}" in told for outcome, rule in RULES.items())
    assert "Survivors are those that end learned or plateau." in told


def test_the_counts_add_up(plan: Plan) -> None:
    shown = page({}, every_word())
    table = next(block for block in shown.blocks if isinstance(block, Grid)).table
    assert table.header == ("verdict", "it means", "by runs", "by calculation", "by its source", "claims")
    assert [row[0] for row in table.rows] == [word.value for word in Word]
    assert [sum(int(row[column]) for row in table.rows) for column in (2, 3, 4, 5)] == [4, 1, 2, 7]
    assert all(int(row[5]) == sum(map(int, row[2:5])) for row in table.rows)


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
    assert all("Quick runs settle nothing" in item for item in claims_report.told(claims_report.chosen(verdicts)).items)
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
    found = claims_report.chosen(verdicts)
    assert [verdict.claim.id for verdict in found] == ["mine.end", "mine.most", "mine.more", "mine.of0", "mine.of1"]
    points = claims_report.told(found[:3])
    assert points.leads == (
        "“What end says” holds in every setting.",
        "“What most says” holds only as written.",
        "“What more says” holds in no setting.",
    )
    assert points.items[1] == (
        "Stated: most's figure. Measured, in 14 runs: as written: most True; as described: most False. Claim mine.most."
    )
    many = [by_runs(f"end{number}", True, True, section="summary") for number in range(7)]
    assert len(claims_report.chosen(many)) == claims_report.MOST
    assert "No claim is decided by runs yet." in markdown(page({}, [by_runs("thin", None, None)]))


def test_what_holds_in_none_of_its_own_settings_is_told_so() -> None:
    verdict = by_runs("elsewhere", False, False)
    finding = replace(verdict.findings[0], holds=True, setting="as written at lr 1e-2")
    held = judge(verdict.claim, [*verdict.findings, finding])
    assert held.word is Word.ONLY_WHEN
    assert claims_report.told([held]).leads == (
        "“What elsewhere says” does not hold as stated, but does as written at lr 1e-2.",
    )


def test_what_a_label_fixes_beside_the_settings_is_told() -> None:
    made = grid.plan_of(
        name="made",
        title="Made up",
        groups=[
            ("as written", {"depth": 1, "norm": ["none", "ln"], "final_norm": "ln"}),
            ("as described", {"depth": 1, "norm": ["none", "ln"]}),
        ],
    )
    assert claims_report.apart(made, {"mixer"}) == {"as written": "final_norm ln"}
    assert claims_report.apart(made, {"final_norm"}) == {}
    shown = Sheet(plan=made, records={}, pictures={})
    points = [block for block in claims_report.blocks(shown, []) if isinstance(block, Points)]
    assert points[0].leads == ("Here as written:",)


def test_a_verdict_that_is_not_as_expected_is_told(plan: Plan) -> None:
    shown = page({}, [by_runs("fails", False, False, expected=Word.REPRODUCED)])
    assert "mine.fails: not reproduced, but the file expects reproduced" in markdown(shown)


def test_verdicts_are_a_table_too() -> None:
    verdicts = every_word(quick=True)
    rows = list(csv.DictReader(claims_report.to_csv(verdicts).splitlines()))
    assert [row["verdict"] for row in rows] == [verdict.word.value for verdict in verdicts]
    assert [row["quick"] for row in rows] == ["True"] * 4 + ["False"] * 3
    assert rows[1]["when"] == "as written"
    assert rows[1]["run_ids"].split(" ")[0] == "partly-written-0"
    assert rows[0]["seeds"] == "3"
