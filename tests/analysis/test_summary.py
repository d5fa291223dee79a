"""Summaries of cells: counts add up, medians include non-finite runs, and means are over finite runs."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace

import pytest
import records as made
from hypothesis import given, settings
from hypothesis import strategies as st
from records import runs_of, seeds

from normexp.analysis import frames
from normexp.analysis.cells import best, best_first, cells, summarize
from normexp.analysis.conclusions import conclusion
from normexp.analysis.sensitivity import half_interval
from normexp.analysis.tables import cell_text
from normexp.records.record import Losses, Outcome

OUTCOMES = [outcome.value for outcome in Outcome]
BLOWN_UP = ("unsettled", "diverged", "nan@3", "inf@12")
NOT_DONE = ("failed", "killed", "timeout", "pending")
ENDS = st.sampled_from(("1.6", "2.5", "learned", "plateau", *BLOWN_UP, *NOT_DONE))


@settings(deadline=None, max_examples=30)
@given(st.lists(ENDS, min_size=12, max_size=12))
def test_counts_add_up_whatever_happened(ends: list[str]) -> None:
    plan = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]})
    runs = runs_of(plan, ends)
    summary = summarize(plan, runs)
    assert (summary["planned"] == summary["done"] + summary["failed"] + summary["pending"]).all()
    assert (summary["done"] == summary[OUTCOMES].sum(axis=1)).all()
    assert summary["planned"].sum() == 12
    assert (summary["median_val_loss"].isna() == (summary["done"] == 0)).all(), "the dead are infinite, not missing"
    alive = summary["learned"] + summary["plateau"]
    assert (summary["mean_val_loss"].isna() == (alive == 0)).all()
    assert (summary["std_val_loss"].isna() == (alive < 2)).all()
    assert (summary["first_dead_step"].isna() == (summary["nonfinite"] == 0)).all()
    for cell in cells(plan, runs):
        text = cell_text(cell)
        counts = [int(count) for count in re.findall(r"(\d+)/3\b", text)] + [3] * text.count("(3)")
        assert sum(counts) == 3, "each run is counted once"
        assert ("nan" in text) == any(run["kind"] == "nan" for run in cell.runs)
    statuses = [str(status) for status in runs["status"]]
    assert summary["failed"].sum() == sum(status in {"failed", "killed", "timeout"} for status in statuses)
    assert summary["pending"].sum() == statuses.count("pending")
    survivors = [how for how in ends[:3] if how in {"1.6", "2.5", "learned", "plateau"}]
    assert summary["survivors"][0].startswith(f"{len(survivors)}/")
    assert math.isfinite(summary["mean_val_loss"][0]) == bool(survivors)
    assert conclusion(plan, runs)


@settings(deadline=None, max_examples=50)
@given(st.permutations(["nan@3", "1.7", "2.5", "inf@9", "diverged", "pending", "failed"]))
def test_best_is_the_finite_minimum_in_any_order(ends: list[str]) -> None:
    plan = made.plan({"lr": [1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4, 7e-4]})
    runs = runs_of(plan, ends)
    top = best(cells(plan, runs))
    assert top is not None
    assert top.median == 1.7
    ordered = list(best_first(summarize(plan, runs))["median_val_loss"])
    assert ordered[:5] == [1.7, 2.5, 1e9, math.inf, math.inf]
    assert all(map(math.isnan, ordered[5:]))


def test_the_best_of_several_tasks_is_not_that_of_the_lowest_loss() -> None:
    plan = made.plan({"vocab": [16, 64]})
    low, high = plan.configs.values()
    losses = Losses(floor=0.1, guess=2.0, bigram=1.0)
    easy = made.done(low, 1.4)
    assert easy.result is not None
    records = {low.run_id: replace(easy, result=replace(easy.result, losses=losses)), high.run_id: made.done(high, 1.6)}
    summary = summarize(plan, frames.runs(plan, records))
    assert list(best_first(summary)["vocab"]) == [64, 16]
    top = best(cells(plan, frames.runs(plan, records)))
    assert top is not None
    assert top.values["vocab"] == 64


def test_the_best_cell_has_the_lowest_median_and_not_the_lowest_mean() -> None:
    """At lr 1e-3 the median is 2.0 and the mean 2.43, at 1e-2 both are 2.2."""
    plan = made.plan({"lr": [1e-3, 1e-2], "seed": [0, 1, 2]})
    runs = runs_of(plan, ["2.0", "1.8", "3.5", "2.2", "2.1", "2.3"])
    top = best(cells(plan, runs))
    assert top is not None
    assert top.values["lr"] == 1e-3
    assert list(best_first(summarize(plan, runs))["lr"]) == [1e-3, 1e-2]
    assert "Best cell: lr 0.001, median final loss 2.000" in conclusion(plan, runs)


def test_the_dead_count_in_the_median_and_not_in_the_mean() -> None:
    plan, runs = seeds("1.6", "1.8", "nan@12")
    row = summarize(plan, runs).iloc[0]
    assert row["median_val_loss"] == 1.8
    assert row["mean_val_loss"] == pytest.approx(1.7)
    assert row["survivors"] == "2/3"
    assert (row["first_dead_step"], row["last_dead_step"]) == (12, 12)
    plan, runs = seeds("1.6", "nan@12", "inf@33")
    row = summarize(plan, runs).iloc[0]
    assert (row["median_val_loss"], row["first_dead_step"], row["last_dead_step"]) == (math.inf, 12, 33)


def test_a_blown_up_loss_is_not_averaged() -> None:
    plan, runs = seeds("1.6", "diverged", "unsettled")
    row = summarize(plan, runs).iloc[0]
    assert (row["mean_val_loss"], row["survivors"], row["median_val_loss"]) == (1.6, "1/3", 100.0)


def test_the_interval_is_students() -> None:
    losses = ["1.6", "1.8", "2.3", "1.7"]
    plan, runs = seeds(*losses)
    row = summarize(plan, runs).iloc[0]
    values = list(map(float, losses))
    half = 3.182446305284263 * statistics.stdev(values) / 2
    assert row["std_val_loss"] == pytest.approx(statistics.stdev(values))
    assert row["low95_val_loss"] == pytest.approx(statistics.fmean(values) - half)
    assert row["high95_val_loss"] == pytest.approx(statistics.fmean(values) + half)
    assert half_interval([1.0, 3.0]) == pytest.approx(12.706204736)
    assert row["learned_fraction"] == pytest.approx((4.07 - statistics.fmean(values)) / (4.07 - 1.5))


def test_a_redundant_point_shows_its_run_in_each_cell() -> None:
    plan = made.plan({"norm": ["ln", "none"], "position": ["post", "pre"]}, depth=2)
    assert len(plan.configs) == 3
    summary = summarize(plan, runs_of(plan, ["1.6", "1.8", "nan@12"]))
    assert list(summary["nonfinite"]) == [0, 0, 1, 1]
    assert list(summary["planned"]) == [1, 1, 1, 1]
    assert conclusion(plan, runs_of(plan, ["1.6", "1.8", "nan@12"])).startswith("2 of 3 finished runs learned")
