"""The conclusion follows from the outcomes, and axes are compared only among partner cells."""

from __future__ import annotations

from dataclasses import replace

import pytest
import records as made
from golden_texts import CONCLUSION
from records import runs_of

from normexp.analysis.conclusions import conclusion
from normexp.config.plan import Plan


def of(plan: Plan, *ends: str) -> str:
    return conclusion(plan, runs_of(plan, list(ends)))


def joined(*plans: Plan) -> Plan:
    """Return one plan with the points of several plans that have the same axes."""
    return replace(plans[0], points=tuple(point for plan in plans for point in plan.points))


def test_conclusion_word_for_word() -> None:
    plan = made.plan({"position": ["post", "pre"], "warmup": [0, 200], "lr": [1e-4, 3.16227766e-3]})
    assert of(plan, "plateau", "plateau", "2.5", "plateau", "1.9", "1.8", "2.0", "1.7") == CONCLUSION


@pytest.mark.parametrize(
    ("axes", "ends", "shares", "common"),
    [
        (
            {"position": ["post", "pre"], "lr": [1, 2, 3]},
            ["1.9", "1.9", "plateau", "1.9", "1.9", "1.9"],
            "1/2 at 3)",
            "",
        ),
        (
            {"position": ["post", "pre"], "lr": [1, 2, 3], "warmup": [0, 9]},
            ["1.9"] * 3 + ["plateau"] * 3 + ["1.9"] * 6,
            "3/6 at post, 6/6 at pre)",
            "",
        ),
        (
            {"lr": [1, 2, 3], "position": ["post", "pre"], "warmup": [0, 9]},
            ["1.9"] * 8 + ["plateau"] * 2 + ["1.9"] * 2,
            "4/4 at 1, 4/4 at 2, 2/4 at 3)",
            "position post",
        ),
        (
            {"lr": range(1, 21)},
            ["1.8"] * 19 + ["nan@5"],
            " lr (runs that learned, all else equal: 1/1 at 1, 0/1 at 20)",
            "",
        ),
    ],
    ids=["one run shares everything with itself", "position", "all that did not learn are post", "many values"],
)
def test_the_axis_that_separates_and_common_values(
    axes: dict[str, list[float]], ends: list[str], shares: str, common: str
) -> None:
    text = of(made.plan(axes), *ends)
    assert shares in text
    assert ("that did not learn have" in text) == bool(common)
    assert common in text


@pytest.mark.parametrize(
    ("ends", "facts"),
    [
        (["pending"] * 4, ["4 pending"]),
        (["failed", "killed", "timeout", "pending"], ["3 failed and 1 pending"]),
        (["1.6", "1.7", "1.8", "1.9"], ["4 of 4 finished runs learned. Best"]),
        (["1.6", "3.5", "1.8", "3.6"], ["4 of 4 finished runs learned, 2 of them less than half"]),
        (["nan@3", "inf@9", "nan@7", "nan@9"], ["0 of 4", "4 became non-finite (step 3–9)", "No cell has a finite"]),
        (["1.6", "nan@9", "nan@7", "1.9"], ["No axis"]),
        (["plateau", "diverged", "plateau", "plateau"], ["No axis"]),
        (["1.6", "pending", "pending", "pending"], ["1 of 1 finished run learned; 3 pending. Best"]),
        (["slow", "plateau", "slow", "1.6"], ["1 of 4", "3 ended on a plateau (2 of them still falling)"]),
        (
            ["slow", "unsettled", "diverged", "1.6"],
            ["plateau (still falling), 1 ended unsettled (still falling) and 1"],
        ),
    ],
)
def test_outcomes(ends: list[str], facts: list[str]) -> None:
    text = of(made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]}), *ends)
    assert [fact for fact in facts if fact not in text] == []


def test_axes_are_compared_among_partners() -> None:
    plan = joined(
        made.plan({"norm": ["ln", "rms"], "depth": [2, 4], "lr": [1e-3]}),
        made.plan({"norm": ["none"], "depth": [2, 4], "lr": [1e-3, 1e-4]}),
    )
    ends = ["1.6", "1.7", "1.8", "1.9"]
    assert "2/2 at 0.001, 0/2 at 0.0001). Best" in of(plan, *ends, "1.9", "nan@3", "1.9", "nan@5"), "not 6/6"
    assert "2/2 at ln, 2/2 at rms, 0/2 at none). Best" in of(plan, *ends, *(f"nan@{n}" for n in range(4))), "not 0/4"


def test_an_axis_without_complete_partners_is_not_mentioned() -> None:
    plan = joined(
        made.plan({"position": ["pre"], "warmup": [9], "depth": [2, 4]}),
        made.plan({"position": ["post"], "warmup": [0], "depth": [2, 4]}),
    )
    assert "1/2 at 2, 2/2 at 4). Best" in of(plan, "1.6", "1.7", "nan@3", "1.9"), "position and warmup go together"
    text = of(plan, "1.6", "1.7", "nan@3", "nan@4")
    assert not any(word in text for word in ("depend", "No axis", "All"))


def test_a_value_tried_only_where_nothing_learns_is_not_blamed() -> None:
    plan = joined(
        made.plan({"lr": [1e-3, 1e-2], "position": ["post", "pre"], "warmup": [0]}),
        made.plan({"lr": [1e-3], "position": ["pre"], "warmup": [9]}),
    )
    assert "0/2 at post, 2/2 at pre). Best" in of(plan, "nan@3", "1.7", "nan@3", "1.7", "1.6")


def test_partners_need_results() -> None:
    plan = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]})
    assert "1/1 at ln, 0/1 at rms)" in of(plan, "1.6", "1.7", "pending", "nan@3"), "only lr 0.01 has both norms"
