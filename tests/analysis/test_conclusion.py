"""The conclusion: what it says follows from the outcomes, and axes are judged among partners only."""

from __future__ import annotations

from dataclasses import replace

import pytest
import records as made
from records import runs_of

from normexp.analysis.conclusions import conclusion
from normexp.config.plan import Plan


def test_conclusion_names_the_axis_that_separates() -> None:
    plan = made.plan({"position": ["post", "pre"], "warmup": [0, 200], "lr": [1e-4, 3.16227766e-3]})
    text = conclusion(plan, runs_of(plan, ["plateau", "plateau", "2.5", "plateau", "1.9", "1.8", "2.0", "1.7"]))
    assert text == (
        "5 of 8 finished runs learned; 3 ended on a plateau. "
        "What separates them most is position (learned, all else equal: post 1 of 4, pre 4 of 4). "
        "Lowest final loss: 1.700 with position pre, warmup 200, lr 0.00316 (floor 1.500, guess 4.070)."
    )


def test_conclusion_names_what_all_that_did_not_learn_share() -> None:
    plan = made.plan({"position": ["post", "pre"], "lr": [1e-4, 1e-3, 1e-2]})
    text = conclusion(plan, runs_of(plan, ["1.9", "1.9", "plateau", "1.9", "1.9", "1.9"]))
    assert "that did not learn" not in text, "one run shares everything with itself"
    plan = made.plan({"position": ["post", "pre"], "lr": [1e-4, 1e-3, 1e-2], "warmup": [0, 9]})
    ends = ["1.9"] * 3 + ["plateau"] * 3 + ["1.9"] * 6
    text = conclusion(plan, runs_of(plan, ends))
    assert "is position (learned, all else equal: post 3 of 6, pre 6 of 6). Lowest" in text
    plan = made.plan({"lr": [1e-4, 1e-3, 1e-2], "position": ["post", "pre"], "warmup": [0, 9]})
    text = conclusion(plan, runs_of(plan, ["1.9"] * 8 + ["plateau"] * 2 + ["1.9"] * 2))
    assert (
        "lr (learned, all else equal: "
        "0.0001 4 of 4, 0.001 4 of 4, 0.01 2 of 4). Both that did not learn have position post." in text
    )


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (["pending"] * 4, "No run has come to a result yet: 4 pending."),
        (["failed", "killed", "timeout", "pending"], "No run has come to a result yet: 3 failed and 1 pending."),
        (["1.6", "1.7", "1.8", "1.9"], "4 of 4 finished runs learned. Lowest"),
        (
            ["1.6", "3.5", "1.8", "3.6"],
            "4 of 4 finished runs learned, 2 of them less than half of what there is. Lowest",
        ),
        (["nan@3", "inf@9", "nan@7", "nan@9"], "0 of 4 finished runs learned; 4 died non-finite (step 3–9). No cell"),
        (["nan@3", "inf@9", "nan@7", "nan@9"], "No cell has a finite median loss."),
        (["1.6", "nan@9", "nan@7", "1.9"], "No axis changes how many learn."),
        (["plateau", "diverged", "plateau", "plateau"], "No axis changes how many learn."),
        (["1.6", "pending", "pending", "pending"], "1 of 1 finished run learned; 3 pending. Lowest"),
    ],
)
def test_conclusion_is_honest(ends: list[str], told: str) -> None:
    plan = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]})
    assert told in conclusion(plan, runs_of(plan, ends))


def test_an_axis_with_many_values_is_told_by_its_ends() -> None:
    rates = [index * 1e-4 for index in range(1, 21)]
    plan = made.plan({"lr": rates})
    text = conclusion(plan, runs_of(plan, ["1.8"] * 19 + ["nan@5"]))
    assert "(learned, all else equal: 0.0001 1 of 1, 0.002 0 of 1)" in text


def test_what_still_falls_on_its_plateau_is_told() -> None:
    plan = made.plan({"lr": [1e-4, 1e-3, 1e-2, 1e-1]})
    assert conclusion(plan, runs_of(plan, ["slow", "plateau", "slow", "1.6"])).startswith(
        "1 of 4 finished runs learned; 3 ended on a plateau (2 of them still falling). "
    )
    text = conclusion(plan, runs_of(plan, ["slow", "unsettled", "diverged", "1.6"]))
    assert "1 ended on a plateau (still falling), 1 never settled (still falling) and 1 diverged." in text


def joined(*plans: Plan) -> Plan:
    """One plan of the points of several with the same axes."""
    return replace(plans[0], points=tuple(point for plan in plans for point in plan.points))


def test_an_axis_is_judged_among_partners_only() -> None:
    plan = joined(
        made.plan({"norm": ["ln", "rms"], "depth": [2, 4], "lr": [1e-3]}),
        made.plan({"norm": ["none"], "depth": [2, 4], "lr": [1e-3, 1e-4]}),
    )
    ends = ["1.6", "1.7", "1.8", "1.9"]
    text = conclusion(plan, runs_of(plan, [*ends, "1.9", "nan@3", "1.9", "nan@5"]))
    assert "is lr (learned, all else equal: 0.001 2 of 2, 0.0001 0 of 2). Lowest" in text, (
        "not 6 of 6; and norm makes no difference"
    )
    text = conclusion(plan, runs_of(plan, [*ends, "nan@2", "nan@3", "nan@4", "nan@5"]))
    assert "is norm (learned, all else equal: ln 2 of 2, rms 2 of 2, none 0 of 2). Lowest" in text, "not 0 of 4"


def test_an_axis_without_complete_partners_is_not_spoken_of() -> None:
    plan = joined(
        made.plan({"position": ["pre"], "warmup": [9], "depth": [2, 4]}),
        made.plan({"position": ["post"], "warmup": [0], "depth": [2, 4]}),
    )
    text = conclusion(plan, runs_of(plan, ["1.6", "1.7", "nan@3", "1.9"]))
    assert "is depth (learned, all else equal: 2 1 of 2, 4 2 of 2). Lowest" in text, (
        "no word of post or warmup 0: they go together"
    )
    text = conclusion(plan, runs_of(plan, ["1.6", "1.7", "nan@3", "nan@4"]))
    assert "separates" not in text
    assert "No axis" not in text
    assert "All" not in text


def test_a_value_tried_only_where_nothing_learns_is_not_blamed() -> None:
    plan = joined(
        made.plan({"lr": [1e-3, 1e-2], "position": ["post", "pre"], "warmup": [0]}),
        made.plan({"lr": [1e-3], "position": ["pre"], "warmup": [9]}),
    )
    text = conclusion(plan, runs_of(plan, ["nan@3", "1.7", "nan@3", "1.7", "1.6"]))
    assert "is position (learned, all else equal: post 0 of 2, pre 2 of 2). Lowest" in text, (
        "warmup's one pair learned both times"
    )


def test_partners_need_results() -> None:
    plan = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]})
    text = conclusion(plan, runs_of(plan, ["1.6", "1.7", "pending", "nan@3"]))
    assert "is norm (learned, all else equal: ln 1 of 1, rms 0 of 1)." in text, "where lr is 0.01"
