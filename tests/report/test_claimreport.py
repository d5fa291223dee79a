"""The report of claims: all verdicts and their evidence are in the Markdown and in the HTML page."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from claimpages import (
    FULL,
    HOLDS,
    REFUTED,
    TOO_FEW,
    UNDECIDED,
    Reader,
    by_runs,
    cited,
    every_word,
    page,
    plain,
    published_plan,
    sheet,
)

from normexp.claims.claim import Decision, Expected, Kind, Word, judge
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
        assert "as written (holds): partly holds; as described (refuted): partly refuted" in text
        assert "a paper: otherwise" in text
        assert "10 claims: holds 2, holds when 1, refuted 1, inconclusive 1, source agrees 1" in text
        assert "By runs: central: holds 1, inconclusive 1; detail: holds when 1, refuted 1, not enough runs 1." in text
        assert "By calculation: detail: holds 1." in text
        assert "mine.holds: with a | in it." in text
        assert "mine.holds: “它成立” (it holds)." in text
        assert "nobody is named" in text
        assert "(quick)" not in text
        assert "Missing" not in text


def test_outcomes_are_explained_above_the_tables(plan: Plan) -> None:
    tables = markdown(page({"made_up": sheet(plan, FULL)}, every_word())).partition("## Tables")[2]
    assert all(f"- **{outcome}:** {rule}" in tables for outcome, rule in RULES.items())


def test_the_counts_add_up(plan: Plan) -> None:
    shown = page({}, every_word())
    table = next(block for block in shown.blocks if isinstance(block, Grid)).table
    by_runs, others = ("by runs, central", "by runs, detail"), ("by calculation, detail", "by its source, detail")
    assert table.header[2:] == (*by_runs, *others, "not checked, detail", "claims")
    assert [row[0] for row in table.rows] == [word.value for word in Word]
    assert [sum(int(row[column]) for row in table.rows) for column in range(2, 8)] == [2, 3, 1, 3, 1, 10]
    assert all(int(row[7]) == sum(map(int, row[2:7])) for row in table.rows)


def test_quick_runs_are_called_quick_on_top_and_at_each_verdict(plan: Plan) -> None:
    verdicts = every_word(quick=True)
    shown = page({"made_up": sheet(plan, FULL)}, verdicts, scale=0.03)
    assert shown.title == "My claims (quick)"
    first = shown.blocks[0]
    assert isinstance(first, Paragraph)
    assert first.warning
    assert "3 % of the steps" in first.text
    rows = [row for block in shown.blocks if isinstance(block, Grid) and block.marks for row in block.table.rows]
    sweep_ids = {v.claim.id for v in verdicts if v.claim.kind is Kind.SWEEP}
    assert ["(quick)" in row[1] for row in rows if row[0] in sweep_ids] == [True] * 10
    findings = claims_report.findings_list(claims_report.key_findings(verdicts))
    assert all("Quick runs" in item for item in findings.items)
    assert "--quick" in markdown(shown)


def test_findings_are_chosen_by_the_rule() -> None:
    verdicts = [
        by_runs("few", HOLDS, HOLDS, runs=1, section="6.1"),
        by_runs("more", REFUTED, REFUTED, runs=4, section="6.1"),
        by_runs("lacking", TOO_FEW, TOO_FEW, runs=90, section="6.2"),
        by_runs("most", HOLDS, REFUTED, runs=7, section="6.3"),
        cited("quoted", own=True),
        by_runs("end", HOLDS, HOLDS, section="summary"),
        by_runs("thin", HOLDS, TOO_FEW, section="summary"),
        *(by_runs(f"of{number}", HOLDS, HOLDS, runs=1, section=f"8.{number}") for number in range(4)),
    ]
    findings = claims_report.key_findings(verdicts)
    assert [verdict.claim.id for verdict in findings] == ["mine.end", "mine.most", "mine.more", "mine.of0", "mine.of1"]
    points = claims_report.findings_list(findings[:3])
    assert points.leads == (
        "“What end says” holds in every setting.",
        "“What most says” holds only as written.",
        "“What more says” is refuted in every setting.",
    )
    assert "“它成立” (it holds)" in claims_report.findings_list([every_word()[0]]).items[0]
    measured = "14 runs: as written (holds): most holds; as described (refuted): most refuted"
    for fact in ("most's figure", measured, "mine.most"):
        assert fact in points.items[1]
    many = [by_runs(f"end{number}", HOLDS, HOLDS, section="summary") for number in range(7)]
    assert len(claims_report.key_findings(many)) == claims_report.MOST
    assert "No claim is decided by runs yet." in markdown(page({}, [by_runs("thin", TOO_FEW, TOO_FEW)]))


def test_what_holds_in_none_of_its_own_settings_is_told_so() -> None:
    verdict = by_runs("elsewhere", REFUTED, UNDECIDED)
    finding = replace(verdict.findings[0], decision=HOLDS, setting="as written at lr 1e-2")
    held = judge(verdict.claim, [*verdict.findings, finding])
    assert held.word is Word.HOLDS_WHEN
    (lead,) = claims_report.findings_list([held]).leads
    assert lead.endswith("does not hold as stated, but holds as written at lr 1e-2.")


@pytest.mark.parametrize(("own", "says"), [(REFUTED, "is refuted as stated"), (UNDECIDED, "is neither shown")])
def test_settings_that_refute_a_claim_are_told_apart_from_other_conditions(own: Decision, says: str) -> None:
    verdict = by_runs("stated", REFUTED, own)
    finding = replace(verdict.findings[0], decision=UNDECIDED, setting="as written at lr 1e-2")
    undecided = judge(verdict.claim, [*verdict.findings, finding])
    assert undecided.word is Word.INCONCLUSIVE
    assert says in claims_report.findings_list([undecided]).leads[0]


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
    assert points[0].leads == ("In this sweep, as written:",)


def test_a_verdict_that_is_not_as_expected_is_told(plan: Plan) -> None:
    shown = page({}, [by_runs("fails", REFUTED, REFUTED, expected=Expected((Word.HOLDS,), "holds"))])
    assert "mine.fails: refuted, but the file expects holds" in markdown(shown)


def test_verdicts_are_a_table_too() -> None:
    verdicts = every_word(quick=True)
    rows = list(csv.DictReader(claims_report.to_csv(verdicts).splitlines()))
    assert [row["verdict"] for row in rows] == [verdict.word.value for verdict in verdicts]
    assert [row["quick"] for row in rows] == ["True"] * 5 + ["False"] * 5
    assert rows[1]["when"] == "as written"
    assert rows[1]["run_ids"].split(" ")[0] == "partly-written-0"
    assert rows[0]["seeds"] == "3"
    assert [row["weight"] for row in rows[:2]] == ["central", "detail"]


def test_a_correction_and_a_threshold_stand_below_the_table(plan: Plan) -> None:
    verdict = by_runs("partly", HOLDS, REFUTED)
    tested = [replace(finding, p_value=p) for finding, p in zip(verdict.findings, (0.03, 1.0), strict=True)]
    corrected = replace(judge(verdict.claim, tested), by_threshold={"2 %": "inconclusive", "5 %": "holds"})
    assert corrected.word is Word.INCONCLUSIVE
    text = plain(markdown(page({}, [corrected])))
    assert "mine.partly: holds uncorrected as written, not after Holm's correction over 2 cells." in text
    assert "mine.partly: with a threshold of 5 % of the learnable gap: holds." in text
    (row,) = csv.DictReader(claims_report.to_csv([corrected]).splitlines())
    assert ("not after Holm" in row["correction"], "5 %" in row["threshold"]) == (True, True)
