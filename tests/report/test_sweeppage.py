"""The page of a sweep: its contents and their order, and curves that keep every spike."""

import math
from pathlib import Path

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from stored import report_of

from normexp.records.record import Traces
from normexp.report import sweep_page
from normexp.report.contents import Report
from normexp.report.page import Commands, Folded, Grid, Heading
from normexp.report.sweep_page import MOST_POINTS, run_curve, thinned

PLAN = records.plan({"position": ["pre", "post"], "lr": [1e-3, 1e-2, 0.1]})


def report() -> Report:
    a, b, c, d, e, _ = PLAN.configs.values()
    ended = [records.done(a, 1.9), records.done(b, 10.5), records.done(c, 4.06), records.dead(d, 12), records.failed(e)]
    return report_of(PLAN, {record.run_id: record for record in ended}, "runs were made with different torch")


def traces(run_id: str) -> Traces:
    return report().records[run_id].traces or Traces(curve=())


def test_runs_are_sorted_by_outcome_and_have_curves_if_they_have_a_result() -> None:
    grid = sweep_page.run_rows(report(), traces)
    assert [row[1] for row in grid.table.rows] == ["failed", "nonfinite", "diverged", "plateau", "learned", "pending"]
    assert list(grid.curves) == [row[0] for row in grid.table.rows[1:5]]
    by_word = {row[1]: dict(zip(grid.table.header, row, strict=True)) for row in grid.table.rows}
    origin = grid.table.header[-1]
    assert by_word["failed"][origin] == "Traceback: it broke"
    assert by_word["nonfinite"][origin] == "step 12: nan in loss blocks.3.ffn.fc1, layer 4"
    assert by_word["learned"]["lr"] == "0.001"
    assert by_word["learned"]["final loss"] == "1.900"
    assert grid.curves[by_word["nonfinite"]["run"]]["death"] == 12


def test_only_so_many_curves_are_on_a_page_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_page, "MOST_CURVES", 2)
    page = sweep_page.page(report(), traces, {}, Path("results/made_up"))
    grid = next(block for block in page.blocks if isinstance(block, Grid) and block.curves)
    assert len(grid.curves) == 2
    assert len(grid.table.rows) == 6
    assert any("2 of 4" in getattr(block, "text", "") for block in page.blocks)


def test_sections_and_their_order() -> None:
    page = sweep_page.page(report(), traces, {"curves": b"png"}, Path("results/made_up"))
    headings = [block.text for block in page.blocks if isinstance(block, Heading) and block.level == 2]
    assert headings == ["Configuration", "Outcomes", "Tables", "Figures", "Runs", "Reproduce"]
    outcomes = next(block for block in page.blocks if isinstance(block, Grid))
    assert sum(int(row[0]) for row in outcomes.table.rows) == len(PLAN.configs)
    assert outcomes.marks == ("failed", "nonfinite", "diverged", "plateau", "learned", "pending")
    assert Commands(("normexp report --figures results/made_up",)) in page.blocks
    assert any(isinstance(block, Folded) and block.title == "Config" for block in page.blocks) == bool(PLAN.source)


def test_a_run_without_a_result_has_no_curve() -> None:
    failed = records.failed(next(iter(PLAN.configs.values())))
    with pytest.raises(ValueError, match="no result"):
        run_curve(failed, Traces(curve=()), "")


def test_a_spike_stays_beside_values_that_are_not_finite() -> None:
    losses = [2.0] * 1000
    losses[500], losses[502], losses[503], losses[504] = math.nan, 90.0, math.inf, 0.5
    kept = dict(thinned(list(enumerate(losses))))
    assert [kept.get(step, "lost") for step in (500, 502, 503, 504)] == [None, 90.0, None, 0.5]


@given(st.lists(st.floats(), max_size=1000))
def test_thinning_keeps_extremes_and_what_is_not_finite_in_order(losses: list[float]) -> None:
    points = list(enumerate(losses))
    kept = thinned(points)
    broken = [step for step, loss in points if not math.isfinite(loss)]
    assert len(kept) <= MOST_POINTS + len(broken)
    assert [step for step, loss in kept if loss is None] == broken
    assert [step for step, _ in kept][:1] + [step for step, _ in kept][-1:] == [
        step for step, _ in [*points[:1], *points[-1:]]
    ], "it begins and ends where the curve does"
    assert [step for step, _ in kept] == sorted({step for step, _ in kept})
    finite = [loss for loss in losses if math.isfinite(loss)]
    if finite:
        assert max(loss for _, loss in kept if loss is not None) == float(f"{max(finite):.4g}")
        assert min(loss for _, loss in kept if loss is not None) == float(f"{min(finite):.4g}")
    if len(losses) <= MOST_POINTS:
        assert len(kept) == len(losses)
