"""Checks of sweep claims, each with frames on which it holds, does not hold, or has too few runs."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from claimframes import CASES, DEAD, GOOD, HIGH, LOW, MID, POST, PRE, STUCK, both, deep, logits, norms, rates

from normexp.claims.cell_stats import Difference, Mismatch, Thin, difference
from normexp.claims.checks import CHECKS
from normexp.claims.claim import Finding


def check(name: str, frame: pd.DataFrame) -> Finding:
    return CHECKS[name].function(frame, 3, **CASES[name][0])


def test_every_check_has_its_cases() -> None:
    assert set(CASES) == set(CHECKS)
    for name, row in CHECKS.items():
        given = set(CASES[name][0])
        assert set(row.takes) - row.optional <= given <= set(row.takes)
        assert row.help.endswith((".", ":"))


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_holds_does_not_hold_or_lacks_runs(name: str) -> None:
    _, holding, failing, thin = CASES[name]
    for frame in holding:
        finding = check(name, frame)
        assert finding.holds is True, finding.sentence
        assert finding.seeds == 3
        assert set(finding.run_ids) <= set(frame["run_id"])
        assert len(finding.run_ids) >= 3
        assert finding.measured
    for number, frame in enumerate(failing):
        assert check(name, frame).holds is False, number
    for frame in thin:
        with pytest.raises(Thin, match="needed"):
            check(name, frame)


def test_measured_values_can_be_recomputed_by_hand() -> None:
    assert (
        "difference 0.000 (0.000 to 0.000), but not every run learned" in check("close", norms(STUCK, STUCK)).measured
    )
    finding = check("lower", norms([2.0, 2.1, 2.2], [2.3, 2.4, 2.7]))
    # differences 0.3, 0.3, 0.5: mean 0.3667, std 0.11547, t(0.975, 2) = 4.3027, half 0.2868
    assert finding.measured == (
        "norm ln 2.100 ± 0.100 (3) against norm none 2.467 ± 0.208 (3), difference 0.367 (0.080 to 0.654)"
    )
    sensitive = CHECKS["sensitivity"].function(
        both((HIGH, MID, HIGH), (LOW, MID, DEAD)), 3, axis="lr", better=PRE, worse=POST
    )
    # seed 0: (2.2 + 2.0 + 2.2) / 3 - 2.0 = 0.133; (2.5 + 2.0 + 4.3) / 3 - 2.0 = 0.933
    assert sensitive.measured.startswith("position pre 0.133 ± 0.000 (3) against position post 0.933")


def test_sensitivity_is_over_the_values_that_both_sides_have() -> None:
    frame = both((HIGH, MID, HIGH), (LOW, MID, DEAD))
    lacking = frame[~((frame["position"] == "post") & (frame["lr"] == 1e-2))]
    found = CHECKS["sensitivity"].function(lacking, 3, axis="lr", better=PRE, worse=POST)
    # seed 0: (2.2 + 2.0) / 2 - 2.0 = 0.1; (2.5 + 2.0) / 2 - 2.0 = 0.25
    assert found.measured.startswith("position pre 0.100 ± 0.000 (3) against position post 0.250 ± 0.000 (3)")
    assert found.measured.endswith("over 2 values of lr")
    assert len(found.run_ids) == 12, "the runs at the third rate are no evidence"
    single = lacking[~((lacking["position"] == "post") & (lacking["lr"] == 1e-3))]
    with pytest.raises(Mismatch, match="1 value of lr"):
        CHECKS["sensitivity"].function(single, 3, axis="lr", better=PRE, worse=POST)


def test_a_side_that_learns_nowhere_has_no_sensitivity() -> None:
    barren = [STUCK, STUCK, [4.0, "plateau", "plateau"]]
    for worse, reason in ((STUCK, "no run learned"), (barren[2], "no run learned with seed 1, 2")):
        found = CHECKS["equally_sensitive"].function(
            both((STUCK, STUCK, worse), (STUCK, STUCK, worse)), 3, axis="lr", one=PRE, other=POST, within=0.1
        )
        assert not found.holds
        assert found.measured == f"position pre none ({reason}) against position post none ({reason})"


def test_a_run_that_answers_two_values_counts_once_in_a_sensitivity() -> None:
    frame = both((HIGH, MID, HIGH), (LOW, MID, DEAD))
    shared = frame["run_id"].where(
        frame["lr"] != 1e-2, frame["run_id"].shift(6)
    )  # 1e-2 is answered by the runs at 1e-4
    found = CHECKS["sensitivity"].function(frame.assign(run_id=shared), 3, axis="lr", better=PRE, worse=POST)
    # seed 0: the run at 1e-4 and 1e-2 once, as its last row tells: (2.2 + 2.0) / 2 - 2.0 = 0.1; (4.3 + 2.0) / 2 - 2.0
    assert found.measured.startswith("position pre 0.100 ± 0.000 (3) against position post 1.150")


def test_the_growth_of_a_gap_is_over_the_values_that_all_four_sides_have() -> None:
    frame = deep(both((LOW, MID, HIGH), (LOW, MID, DEAD)), both((LOW, MID, HIGH), (STUCK, DEAD, DEAD)))
    lacking = frame[~((frame["depth"] == 12) & (frame["lr"] == 1e-2))]
    found = CHECKS["widens"].function(lacking, 3, **CASES["widens"][0])
    # over 1e-4 and 1e-3, seed 0: 0 at 12 layers; (4.05 + 4.3) / 2 - (2.5 + 2.0) / 2 = 1.925 at 30
    assert found.measured.startswith("gap 0.000 ± 0.000 (3) with depth 12 against 1.925 ± ")
    assert found.measured.endswith("over 2 values of lr")


def test_differences_of_infinities() -> None:
    assert difference({0: math.inf, 1: 1.0}, {0: math.inf, 1: 2.0}, 2).values == (0.0, 1.0)
    assert not Difference((0.0, math.inf)).above_zero
    assert Difference((math.inf, math.inf)).above_zero
    assert Difference((math.inf, 0.2, 0.1)).middle == 0.2
    assert Difference((0.1,)).above_zero, "one seed has no interval"


def test_one_dead_run_makes_no_margin() -> None:
    assert not check("lower", norms(GOOD, ["nan@20", 2.02, 2.0])).holds, "two of three lie 0.01 above"
    assert check("lower", norms(GOOD, ["nan@20", 2.2, 2.2])).holds


def test_differences_are_paired_by_seed_and_not_by_rank() -> None:
    """Ranked losses differ by 0.1 each, an interval of zero width; by seed they differ by 0.5, 0.1 and -0.3."""
    assert difference({0: 2.0, 1: 2.2, 2: 2.4}, {2: 2.1, 0: 2.5, 1: 2.3}, 3).values == pytest.approx((0.5, 0.1, -0.3))
    crossed = CHECKS["lower"].function(
        norms([2.0, 2.2, 2.4], [2.5, 2.3, 2.1]), 3, better={"norm": ("ln",)}, worse={"norm": ("none",)}
    )
    assert crossed.holds is not True, crossed.sentence
    assert "(-0.894 to 1.094)" in crossed.measured  # 0.1 ± 4.3027 × 0.4 / √3


def test_infinities_of_both_signs_have_no_mean() -> None:
    gap = Difference((math.inf, -math.inf, 0.1))
    assert math.isnan(gap.middle)
    assert not gap.above_zero
    assert gap.text == "undefined"
    finding = check("lower", norms([2.0, "nan@20", 2.0], ["nan@20", 2.0, 2.3]))
    assert not finding.holds
    assert finding.measured.endswith("difference undefined")


@pytest.mark.parametrize(
    ("options", "before", "after", "holds"),
    [
        ({"towards": "falling"}, 4.1, 2, True),
        ({"towards": "falling"}, 3.9, 2, False),
        ({"towards": "falling"}, 1, 0, True),
        ({"towards": "falling"}, 0, 0, False),
        ({"towards": "falling"}, 0, 1, False),
        ({"times": 1.0, "through": 3.0}, 2, 4.1, True),
        ({"times": 1.0, "through": 3.0}, 3.1, 9.0, False),
        ({"times": 1.0, "through": 3.0}, 2, 2.9, False),
    ],
)
def test_a_measure_falls_to_zero_or_passes_a_number(
    options: dict[str, object], before: float, after: float, holds: bool
) -> None:
    assert CHECKS["changes"].function(logits(before, after), 3, **CASES["changes"][0] | options).holds is holds


def test_a_change_is_one_of_the_same_run() -> None:
    apart = logits(2, 5, count=6)
    apart.loc[:2, "max_logit_at_init"] = math.nan
    apart.loc[3:, "max_logit_after"] = math.nan
    with pytest.raises(Thin, match="0 of 3 needed runs"):
        CHECKS["changes"].function(apart, 3, **CASES["changes"][0])


def test_a_change_may_have_to_end_in_an_outcome() -> None:
    with_ = CASES["changes"][0] | {"outcomes": ("nonfinite",)}
    finding = CHECKS["changes"].function(logits(2, 5), 3, **with_)
    assert not finding.holds
    assert finding.measured.endswith("; 3 learned 2.000 ± 0.000")
    died = logits(2, 5).assign(outcome="nonfinite", step=7, final_val_loss=math.inf)
    assert CHECKS["changes"].function(died, 3, **with_).holds


def test_shares_of_runs_and_steps_are_measured() -> None:
    along = CHECKS["ends"].function(rates(LOW, MID, DEAD), 3, outcomes=("learned",))
    assert along.measured == "6/9: 6 learned 1.990 to 2.510, 3 nonfinite @20–40"
    finding = CHECKS["dies_by"].function(norms(GOOD, DEAD), 3, step=20, of_runs={"norm": ("none",)})
    assert finding.measured == "1/3 non-finite by step 20 (2 @30–40)"
    finding = CHECKS["dies"].function(norms(GOOD, DEAD), 3, step=60, factor=1.5, of_runs={"norm": ("none",)})
    assert finding.measured == "3/3 non-finite @20–40"
    assert "40–90" in finding.sentence


@pytest.mark.parametrize(
    ("steps", "holds"),
    [((20, 100, 200), False), ((3, 30, 40), True), ((20, 40, 400), True), ((3, 4, 30), False)],
)
def test_the_median_step_decides_and_not_the_first_the_last_or_the_mean(steps: tuple[int, ...], holds: bool) -> None:
    given = norms(GOOD, [f"nan@{step}" for step in steps])
    finding = CHECKS["dies"].function(given, 3, step=30, factor=2.0, of_runs={"norm": ("none",)})
    assert finding.holds is holds, finding.sentence


def test_the_best_value_has_the_lowest_median_and_not_the_lowest_mean() -> None:
    """At lr 1e-3 the median is 2.0 and the mean 2.47, at 1e-4 both are 2.3."""
    outlier, steady, higher = [2.0, 1.9, 3.5], [2.3, 2.31, 2.29], [2.6, 2.61, 2.59]
    for value, holds in ((1e-3, True), (1e-4, False)):
        best = CHECKS["best_at"].function(rates(steady, outlier, higher), 3, axis="lr", values=(value,))
        assert best.holds is holds, best.sentence
    grid = both((steady, outlier, higher), (steady, higher, higher))
    assert CHECKS["best_higher"].function(grid, 3, axis="lr", higher=PRE, lower=POST).holds is True
    over = CHECKS["lower"].function(grid, 3, better=PRE, worse=POST, over="lr")
    assert "position pre at lr 0.001" in over.measured
    assert "position post at lr 0.0001" in over.measured


def test_the_best_value_may_share_its_place_within_a_limit() -> None:
    near, far = [2.02, 2.03, 2.01], [2.1, 2.11, 2.09]
    for other, holds in ((near, True), (far, False), ([*near[:2], "plateau"], False)):
        finding = CHECKS["best_at"].function(rates(LOW, MID, other), 3, axis="lr", values=(1e-2,), within=0.03)
        assert finding.holds is holds
    assert "best at lr 0.001: 2.000" in finding.measured


def test_how_many_times_higher_the_best_value_must_be() -> None:
    given = both((LOW, HIGH, MID), (LOW, MID, DEAD))
    for times, holds in ((10.0, True), (10.1, False)):
        assert CHECKS["best_higher"].function(given, 3, axis="lr", higher=PRE, lower=POST, times=times).holds is holds


def test_a_lower_loss_of_runs_that_learned_nothing_is_marked() -> None:
    assert "no run learned" in check("lower", norms(STUCK, DEAD)).measured
    assert "no run learned" not in check("lower", norms(GOOD, DEAD)).measured


def test_a_trend_lacks_what_its_middle_lacks() -> None:
    given = pd.concat([logits(1, 2), logits(1, math.nan), logits(1, 4)], ignore_index=True)
    given["lr"] = [1e-4] * 3 + [1e-3] * 3 + [1e-2] * 3
    with pytest.raises(Thin, match=r"max_logit_after .* 0 of 3 needed runs"):
        CHECKS["trend"].function(given, 3, axis="lr", towards="rising", measure="max_logit_after")


def test_learning_less_than_half_of_the_gap_is_measured() -> None:
    little = norms([3.5, 3.6, 3.7], GOOD).assign(learned_fraction=0.195)
    for first, measured in ((0.195, "3/3: 3 learned 3.600 ± 0.100 (at most 20 %"), (0.9, "(2 of them less than half")):
        little.loc[0, "learned_fraction"] = first
        finding = CHECKS["ends"].function(little, 3, outcomes=("learned",), of_runs={"norm": ("ln",)})
        assert measured in finding.measured


def test_along_a_key_each_side_is_at_its_best() -> None:
    given = both((LOW, MID, HIGH), (HIGH, LOW, DEAD))
    finding = CHECKS["lower"].function(given, 3, better=PRE, worse=POST, over="lr")
    assert finding.holds
    assert "lr 0.001" in finding.sentence
    assert "lr 0.0001" in finding.sentence


def test_a_selection_of_several_cells_or_of_none_is_a_fault_of_the_file() -> None:
    given = both((LOW, MID, HIGH), (HIGH, LOW, DEAD))
    with pytest.raises(Mismatch, match="several cells"):
        CHECKS["lower"].function(given, 3, better=PRE, worse=POST)
    with pytest.raises(Mismatch, match="no point has norm rms"):
        CHECKS["ends"].function(given, 3, outcomes=("learned",), of_runs={"norm": ("rms",)})
    with pytest.raises(Mismatch, match="several cells at one lr"):
        CHECKS["learns_at"].function(given, 3, axis="lr", values=(1e-3,))


def test_what_was_measured_names_its_sides_and_its_measure() -> None:
    grid = both((HIGH, MID, HIGH), (LOW, HIGH, GOOD))
    best = CHECKS["close"].function(grid, 3, one=PRE, other=POST, within=9, over="lr")
    assert best.measured.startswith(
        "position pre at lr 0.001 2.000 ± 0.010 (3) and position post at lr 0.01 2.000 ± 0.010 (3), difference"
    )
    drawn = CHECKS["lower"].function(grid, 3, better=PRE, worse=POST, measure="init_val_loss", over="lr")
    assert drawn.measured.startswith("init loss: position pre at lr 0.001 ")
    places = CHECKS["best_higher"].function(grid, 3, axis="lr", higher=POST, lower=PRE)
    assert places.measured == "best at lr 0.01 with position post against 0.001 with position pre"
