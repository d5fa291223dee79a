"""Runs that answer several points: each cell shows them, and counts, means and comparisons include them once.

Without a norm, Pre and Post are the same network: six points with three seeds and two placements have three runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest
import records as made
from printed import printed

from normexp.analysis import comparison, edge_tables, frames
from normexp.analysis.cells import summarize
from normexp.analysis.comparison import Side, halves, side
from normexp.analysis.conclusions import conclusion
from normexp.analysis.edge_search import Search
from normexp.analysis.stability_edges import Finding, ask
from normexp.analysis.tables import pivot
from normexp.claims import checks
from normexp.config import sweep_file
from normexp.config.plan import Pivot, Plan
from normexp.records.record import RunRecord
from normexp.report.claims_report import Sheet, missing
from normexp.terminal import compare as view

AXES = {"position": ["pre", "post"], "norm": ["ln", "none"], "seed": [0, 1, 2]}
PRE, NONE, POST = ["1.90", "1.92", "1.97"], ["3.0", "3.1", "nan@7"], ["2.2", "2.3", "plateau"]
"""How the nine runs of a sweep end, in the order in which its points ask for them."""


def plan(name: str = "one", **base: object) -> Plan:
    return made.plan(AXES, name=name, pivot=Pivot(rows=("norm",), columns=("position",)), depth=2, **base)


def ended(plan: Plan, ends: Sequence[str] = (*PRE, *NONE, *POST)) -> dict[str, RunRecord]:
    return made.ended(plan, ends)


def side_of(plan: Plan, ends: Sequence[str] = (*PRE, *NONE, *POST)) -> Side:
    return side(plan.name, plan.name, plan, ended(plan, ends))


def shown(found: comparison.Comparison) -> str:
    return printed(view.comparison(found))


class TestCompare:
    def test_two_sweeps_are_compared_run_by_run(self) -> None:
        lower = ["1.80", "1.85", "1.84", "2.5", "2.7", "2.9", "2.0", "2.1", "2.2"]
        found = comparison.compare(side_of(plan()), side_of(plan("other", optimizer="sgd"), lower))
        assert (len(found.pairing.pairs), len(found.pairing.of_points), len(found.cells)) == (9, 12, 3)
        assert sum(len(change.pairs) for change in found.changes) == 9
        shared = next(cell for cell in found.cells if cell.where["norm"] == "none")
        assert [place.where["position"] for place in shared.places] == ["pre", "post"]
        assert (shared.pairs, shared.compared) == (3, 2)
        assert shared.mean == pytest.approx(((2.5 - 3.0) + (2.7 - 3.1)) / 2)
        text = shown(found)
        assert "pre/post   none" in text
        assert "9 pairs of runs for 12 pairs of configs." in text
        assert "Outcomes: 2 of 9 differ." in text
        assert "position pre/post, norm none, seed 2" in text
        assert "B is lower in 3" in text
        data = comparison.as_data(found)
        assert (data["pairs"], data["pairs_of_points"], len(data["cells"])) == (9, 12, 3)
        assert [len(cell["also"]) for cell in data["cells"]] == [0, 1, 0]

    def test_along_a_key_a_run_is_no_pair_with_itself(self) -> None:
        found = comparison.compare(*halves(side_of(plan()), "position=pre,post"))
        assert (len(found.pairing.pairs), found.same) == (6, 3)
        assert sum(len(change.pairs) for change in found.changes) == 3
        assert "Outcomes: 1 of 3 differ; 3 more are the same run on both sides." in shown(found)

    def test_pairs_that_share_a_run_are_told(self) -> None:
        found = comparison.compare(*halves(side_of(plan()), "norm=ln,none"))
        assert len(found.pairing.pairs) == 6
        assert "they share runs (6 runs of A and 3 of B)" in shown(found)


class TestTables:
    def test_each_cell_shows_its_runs_and_totals_count_them_once(self) -> None:
        runs = frames.runs(plan(), ended(plan()))
        summary = summarize(plan(), runs)
        assert list(summary["planned"]) == [3, 3, 3, 3]
        assert list(summary["shared_runs"]) == [0, 3, 0, 3]
        (table,) = pivot(plan(), runs)
        assert table.rows[1][1] == table.rows[1][2]
        assert "3 runs belong to several cells" in table.note
        assert len(runs) == 9

    def test_the_conclusion_compares_by_runs_that_differ(self) -> None:
        text = conclusion(plan(), frames.runs(plan(), ended(plan())))
        assert text.startswith("7 of 9 finished runs learned")
        assert " position (runs that learned, all else equal: 3/3 at pre, 2/3 at post)" in text
        best = ["2.9", "2.9", "2.9", "1.7", "1.7", "1.7", "2.9", "2.9", "2.9"]
        text = conclusion(plan(), frames.runs(plan(), ended(plan(), best)))
        assert "position pre/post, norm none, median final loss 1.700 over 3 runs" in text

    def test_an_axis_that_cannot_matter_is_none_of_those_that_are_compared(self) -> None:
        alike = made.plan({"position": ["pre", "post"], "lr": [1e-3, 1e-2]}, norm="none", depth=2)
        runs = frames.runs(alike, ended(alike, ["1.9", "nan@3"]))
        assert " lr (runs that learned, all else equal: 1/1 at 0.001, 0/1 at 0.01)" in conclusion(alike, runs)

    def test_what_lacks_is_told_once(self) -> None:
        records = ended(plan(), [*PRE, "3.0", "pending", "pending", *POST])
        assert missing(Sheet(plan=plan(), records=records, pictures={})) == [
            "position pre/post, norm none: 2 of 3 runs"
        ]


def frame(plan: Plan, ends: Sequence[str] = (*PRE, *NONE, *POST)) -> pd.DataFrame:
    """As evidence makes it: one row a point, with the values that were asked for."""
    rows = {row["run_id"]: row for row in frames.rows(frames.runs(plan, ended(plan, ends)))}
    rows_of_points = [
        {**rows[point.config.run_id], "setting": "", **point.config.to_dict(), **point.values} for point in plan.points
    ]
    return frames.frame(rows_of_points, ["setting", *frames.RUN_COLUMNS])


class TestClaims:
    def test_counts_are_of_distinct_runs(self) -> None:
        none = {"norm": ("none",)}
        found = checks.ends(frame(plan()), 3, outcomes=("learned",), of_runs=none)
        assert found.measured.startswith("2/3: 2 learned")
        assert len(found.run_ids) == 3
        found = checks.dies_by(frame(plan()), 3, step=10, of_runs=none)
        assert found.measured.startswith("1/3 non-finite by step 10; 1/3 non-finite")

    def test_a_median_is_over_distinct_runs(self) -> None:
        ends = ["nan@100", "nan@100", "nan@12", "nan@10", "nan@10", "nan@10", "nan@100", "nan@100", "nan@100"]
        found = checks.dies(frame(plan(), ends), 3, step=100, factor=1.5)
        # the median of nine runs is 100, and that of twelve points 12; ranks 2 and 8 of nine are 10 and 100
        assert found.measured == "9/9 non-finite @10–100, median step 100 (95 % interval 10 to 100)"
        assert "3 seeds" in found.sentence, "nine runs of three seeds are not twelve seeds"

    def test_sides_of_the_same_runs_are_told(self) -> None:
        sides = {name: {"norm": ("none",), "position": (name,)} for name in ("pre", "post")}
        found = checks.close(
            frame(plan(), [*PRE, "3.0", "3.1", "3.2", *POST]), 3, one=sides["pre"], other=sides["post"], within=0.1
        )
        assert "difference 0.000 (both sides are the same runs)" in found.measured


def test_edges_of_the_same_runs_are_one() -> None:
    text = "base: {depth: 2, norm: none, steps: 100, eval_every: 25}\n"
    text += "grid: {position: [pre, post], width: [8, 16], seed: [0]}"
    question = ask(sweep_file.parse(text, origin="a"), "lr", low="1e-4", high="1e-1", resolution="2")
    search = Search(question)
    plan, records = search.first({}), {}
    while plan is not None:
        for run_id, config in plan.configs.items():
            limit = 5e-3 if config.width == 8 else 5e-2
            records[run_id] = made.done(config, 1.9 if config.lr < limit else 4.065)
        plan = search.grow(records)
    edges = search.edges(records)
    assert len(edges) == 4
    assert len({found.run_ids for found in edges}) == 2
    assert all(found.finding is Finding.BORDER for found in edges)
    text = edge_tables.conclusion(question, edges)
    assert "smallest for position pre/post, width 8" in text
    assert "largest for position pre/post, width 16" in text
    assert "same runs" in edge_tables.table(question, edges).note
