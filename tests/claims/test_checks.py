"""Checks of sweep claims, each with frames on which it holds, is refuted, is undecided, or has too few runs."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from claimframes import (
    CASES,
    DEAD,
    DEAD_12,
    GOOD,
    GOOD_6,
    HIGH,
    LOW,
    MID,
    POST,
    PRE,
    STUCK,
    both,
    deep,
    logits,
    norms,
    of_logits,
    rates,
)

from normexp.claims.cell_stats import Mismatch, Thin, difference
from normexp.claims.checks import CHECKS
from normexp.claims.claim import Decision, Finding


def check(name: str, frame: pd.DataFrame) -> Finding:
    return CHECKS[name].function(frame, 3, **CASES[name].options)


def test_every_check_has_its_cases() -> None:
    assert set(CASES) == set(CHECKS)
    for name, row in CHECKS.items():
        given = set(CASES[name].options)
        assert set(row.takes) - row.optional <= given <= set(row.takes)
        assert row.help.endswith((".", ":"))


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_holds_is_refuted_is_undecided_or_lacks_runs(name: str) -> None:
    case = CASES[name]
    for decision, cases in (
        (Decision.HOLDS, case.holds),
        (Decision.REFUTED, case.refuted),
        (Decision.UNDECIDED, case.undecided),
    ):
        assert cases
        for number, frame in enumerate(cases):
            finding = check(name, frame)
            assert finding.decision is decision, (number, finding.sentence)
            assert finding.seeds >= 3
            assert set(finding.run_ids) <= set(frame["run_id"])
            assert len(finding.run_ids) >= 3
            assert finding.measured
            assert decision is Decision.HOLDS or f"; {decision}: " in finding.sentence
            if finding.p_value is not None:
                assert 0 <= finding.p_value <= (0.05 if decision is Decision.HOLDS else 1)
    for frame in case.thin:
        with pytest.raises(Thin, match="needed"):
            check(name, frame)


@pytest.mark.parametrize("name", CHECKS)
def test_a_decision_does_not_depend_on_how_seeds_are_numbered(name: str) -> None:
    case = CASES[name]
    for frame in (*case.holds, *case.refuted, *case.undecided):
        before = check(name, frame)
        for seed_of in (lambda seed: seed + 7, lambda seed: 50 - seed):
            after = check(name, frame.assign(seed=frame["seed"].map(seed_of)))
            assert (after.decision, after.p_value) == (before.decision, before.p_value), after.sentence


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
    found = CHECKS["widens"].function(lacking, 3, **CASES["widens"].options)
    # over 1e-4 and 1e-3, seed 0: 0 at 12 layers; (4.05 + 4.3) / 2 - (2.5 + 2.0) / 2 = 1.925 at 30
    assert found.measured.startswith("gap 0.000 ± 0.000 (3) with depth 12 against 1.925 ± ")
    assert found.measured.endswith("over 2 values of lr")


def test_two_infinities_do_not_differ() -> None:
    assert difference({0: math.inf, 1: 1.0}, {0: math.inf, 1: 2.0}, 2).values == (0.0, 1.0)


def test_one_dead_run_makes_no_margin() -> None:
    little = check("lower", norms(GOOD_6, ["nan@20", 2.02, 2.0, 2.02, 2.03, 2.01]))
    assert little.decision is Decision.UNDECIDED
    assert "by less than our threshold of 0.1" in little.sentence
    assert check("lower", norms(GOOD_6, ["nan@20", *[2.2] * 5])).holds


def test_a_cell_that_mixes_outcomes_has_a_range_and_counts() -> None:
    finding = check("lower", norms(GOOD, [2.3, "plateau", 2.29]))
    assert finding.measured == (
        "norm ln 2.000 ± 0.010 (3) against norm none 2.290 to 4.050 (2 learned, 1 plateau), "
        "difference 0.300 to 2.040 by seed, 3 of 3 above 0"
    )
    # 3 of 3 signs: p = 2 / 2^3
    assert finding.p_value == 0.25
    assert "needs at least 6 seeds" in finding.sentence


def test_runs_far_apart_are_mixed_even_if_all_learned() -> None:
    frame = norms(GOOD, [2.3, 2.31, 2.29])
    assert check("lower", frame).holds
    for fraction, holds in ((0.26, True), (0.24, False)):
        apart = frame.assign(learned_fraction=[0.5, 0.5, 0.5, 0.5, 0.5, fraction])
        assert check("lower", apart).holds is holds


def test_differences_are_paired_by_seed_and_not_by_rank() -> None:
    """Ranked losses differ by 0.1 each, an interval of zero width; by seed they differ by 0.5, 0.1 and -0.3."""
    assert difference({0: 2.0, 1: 2.2, 2: 2.4}, {2: 2.1, 0: 2.5, 1: 2.3}, 3).values == pytest.approx((0.5, 0.1, -0.3))
    crossed = CHECKS["lower"].function(
        norms([2.0, 2.2, 2.4], [2.5, 2.3, 2.1]), 3, better={"norm": ("ln",)}, worse={"norm": ("none",)}
    )
    assert crossed.holds is not True, crossed.sentence
    assert "(-0.894 to 1.094)" in crossed.measured  # 0.1 ± 4.3027 × 0.4 / √3


def test_a_plateau_beside_runs_that_hardly_learned_is_of_their_kind() -> None:
    """Otherwise the threshold of `learned` would decide whether there is an interval."""
    frame = norms([3.9, 3.95, "plateau"], ["unsettled"] * 3)
    for fraction, holds in ((0.2, True), (0.3, False)):
        finding = check("lower", frame.assign(learned_fraction=[fraction, fraction, 0.0, -9.0, -9.0, -9.0]))
        assert finding.holds is holds, finding.sentence


def test_infinities_of_both_signs_have_no_mean() -> None:
    finding = check("lower", norms([2.0, "nan@20", 2.0], ["nan@20", 2.0, 2.3]))
    assert not finding.holds
    assert finding.measured.endswith("difference -inf to inf by seed, 2 of 3 above 0")


def test_a_threshold_of_the_text_can_refute_and_one_of_ours_cannot() -> None:
    frame = norms(GOOD, [2.05, 2.06, 2.04])  # a difference of 0.05
    for name, decision in (("by", Decision.UNDECIDED), ("at_least", Decision.REFUTED)):
        options = {"better": {"norm": ("ln",)}, "worse": {"norm": ("none",)}, name: 0.1}
        assert CHECKS["lower"].function(frame, 3, **options).decision is decision
    with pytest.raises(Mismatch, match="by and at_least"):
        CHECKS["lower"].function(frame, 3, better={"norm": ("ln",)}, worse={"norm": ("none",)}, by=1.0, at_least=1.0)


def test_magnitudes_are_compared_by_ratio() -> None:
    small, large = of_logits((1, 1), (1, 2), (1, 4)), of_logits((1, 100), (1, 100), (1, 800))
    frame = pd.concat([small.assign(norm="ln"), large.assign(norm="none", run_id=large["run_id"] + "-b")])
    options = {"better": {"norm": ("ln",)}, "worse": {"norm": ("none",)}, "measure": "max_logit_after"}
    finding = CHECKS["lower"].function(frame, 3, **options)
    # ratios 100, 50, 200: geometric mean 100, std ln 2, half 4.3027 ln 2 / sqrt 3 = 1.7219, a factor of 5.595
    assert finding.measured.endswith("ratio 100 (17.9 to 559)")
    assert finding.measured.startswith("max logit after: norm ln 2 ×/÷ 2 (3)")
    assert finding.holds
    linear = CHECKS["lower"].function(frame, 3, **{**options, "measure": "final_val_loss"})
    assert "difference" in linear.measured
    with pytest.raises(Mismatch, match="write a factor of 1 or more"):
        CHECKS["lower"].function(frame, 3, **options, by=0.5)
    assert (
        CHECKS["close"]
        .function(frame, 3, one={"norm": ("ln",)}, other={"norm": ("none",)}, within=600.0, measure="max_logit_after")
        .holds
    )


def test_each_seed_is_judged_at_the_value_that_is_best_for_the_others() -> None:
    # means over the other seeds at 1e-4 and 1e-3: 2.35 and 2.6 for seed 0, 2.2 and 2.3 for seed 1, 2.25 and 2.1 for 2
    pre = rates([2.1, 2.4, 2.3], [1.6, 2.2, 3.0], DEAD)
    finding = CHECKS["lower"].function(
        pd.concat([pre, rates([3.0] * 3, [3.0] * 3, [3.0] * 3, position="post")]), 3, better=PRE, worse=POST, over="lr"
    )
    # so that the runs are 2.1, 2.4 and 3.0: the best means on all seeds would have given 2.1, 2.4 and 2.3
    assert finding.measured.startswith("position pre at lr 0.0001 or 0.001 2.500 ± 0.458 (3) against")
    single = CHECKS["lower"].function(
        both((LOW[:1], MID[:1], HIGH[:1]), (HIGH[:1], LOW[:1], DEAD[:1])), 1, better=PRE, worse=POST, over="lr"
    )
    assert "one seed has no interval" in single.sentence


def test_a_claim_about_the_step_of_death_has_a_median_with_an_interval() -> None:
    finding = check("dies", norms(GOOD, DEAD_12))
    assert finding.measured == "12/12 non-finite @20–42, median step 30 (95 % interval 24 to 38)"
    assert finding.holds
    half = check("dies", norms(GOOD, [*[2.0] * 7, *["nan@30"] * 5]))
    assert half.measured.endswith("median step never (95 % interval 30 to never)")
    assert half.decision is Decision.UNDECIDED
    assert "11 seeds" in check("dies", norms(GOOD, DEAD_12[:11])).sentence


def test_a_share_of_most_runs_is_a_majority_that_is_shown() -> None:
    options = {"outcomes": ("learned",), "share": "most", "of_runs": {"norm": ("none",)}}
    # Clopper-Pearson, 95 %: 10 of 12 is 51.6 to 97.9 %, 9 of 12 is 42.8 to 94.5 %
    for hits, decision in ((12, "holds"), (10, "holds"), (9, "undecided"), (3, "undecided"), (2, "refuted")):
        ends = [2.0] * hits + ["plateau"] * (12 - hits)
        assert CHECKS["ends"].function(norms(GOOD, ends), 3, **options).decision == decision


def test_a_measure_that_starts_beyond_the_number_cannot_pass_it() -> None:
    options = CASES["changes"].options | {"through": 3.0, "times": 1.0}
    started = CHECKS["changes"].function(logits(4, 9), 3, **options)
    assert (started.decision, "start beyond 3" in started.sentence) == (Decision.UNDECIDED, True)
    assert CHECKS["changes"].function(logits(1, 2.9), 3, **options).decision is Decision.REFUTED


def test_the_best_of_equal_values_is_no_finding() -> None:
    equal = rates([2.01, 2.0, 2.02], MID, [2.02, 2.01, 2.0])
    finding = CHECKS["best_at"].function(equal, 3, axis="lr", values=(1e-3,), within=0.1)
    assert finding.decision is Decision.UNDECIDED
    assert "no value is worse by more than 0.1" in finding.sentence


def test_a_trend_is_refuted_only_by_a_step_beyond_the_noise() -> None:
    options = {"axis": "lr", "towards": "rising", "measure": "max_logit_after"}

    def along(*cells: pd.DataFrame) -> pd.DataFrame:
        named = [cell.assign(lr=lr, run_id=cell["run_id"] + str(lr)) for cell, lr in zip(cells, (1, 2, 3), strict=True)]
        return pd.concat(named)

    start, top = of_logits((1, 4), (1, 5), (1, 4.5)), of_logits((1, 140), (1, 150), (1, 145))
    within = CHECKS["trend"].function(along(start, top, of_logits((1, 150), (1, 130), (1, 144))), 3, **options)
    assert (within.decision, "not from lr 2 to 3" in within.sentence) == (Decision.UNDECIDED, True)
    beyond = CHECKS["trend"].function(along(start, top, of_logits((1, 70), (1, 75), (1, 72))), 3, **options)
    assert (beyond.decision, "the other way from lr 2 to 3" in beyond.sentence) == (Decision.REFUTED, True)
    assert CHECKS["trend"].function(along(start, of_logits((1, 70), (1, 75), (1, 72)), top), 3, **options).holds


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
    assert CHECKS["changes"].function(logits(before, after), 3, **CASES["changes"].options | options).holds is holds


def test_a_change_is_one_of_the_same_run() -> None:
    apart = logits(2, 5, count=6)
    apart.loc[:2, "max_logit_at_init"] = math.nan
    apart.loc[3:, "max_logit_after"] = math.nan
    with pytest.raises(Thin, match="0 of 3 needed runs"):
        CHECKS["changes"].function(apart, 3, **CASES["changes"].options)


def test_a_change_may_have_to_end_in_an_outcome() -> None:
    with_ = CASES["changes"].options | {"outcomes": ("nonfinite",)}
    finding = CHECKS["changes"].function(logits(2, 5), 3, **with_)
    assert not finding.holds
    assert finding.measured.endswith("; 3 learned 2.000 ± 0.000")
    died = logits(2, 5).assign(outcome="nonfinite", step=7, final_val_loss=math.inf)
    assert CHECKS["changes"].function(died, 3, **with_).holds


def test_shares_of_runs_and_steps_are_measured() -> None:
    along = CHECKS["ends"].function(rates(LOW, MID, DEAD), 3, outcomes=("learned",))
    assert along.measured == "6/9: 6 learned 1.990 to 2.510, 3 nonfinite @20–40"
    finding = CHECKS["dies_by"].function(norms(GOOD, DEAD), 3, step=20, of_runs={"norm": ("none",)})
    assert finding.measured == "1/3 non-finite by step 20; 3/3 non-finite @20–40"
    finding = CHECKS["dies"].function(norms(GOOD, DEAD), 3, step=60, factor=1.5, of_runs={"norm": ("none",)})
    assert finding.measured == "3/3 non-finite @20–40"
    assert "40–90" in finding.sentence


@pytest.mark.parametrize(
    ("early", "median", "late", "holds"),
    [(20, 100, 200, False), (3, 30, 40, True), (20, 40, 400, True), (3, 4, 30, False)],
)
def test_the_median_step_decides_and_not_the_first_the_last_or_the_mean(
    early: int, median: int, late: int, holds: bool
) -> None:
    """Of 12 deaths, the ranks 3 and 10 bound the median; the first two and the last two do not matter."""
    ends = [f"nan@{step}" for step in (*[early] * 2, *[median] * 8, *[late] * 2)]
    finding = CHECKS["dies"].function(norms(GOOD, ends), 3, step=30, factor=2.0, of_runs={"norm": ("none",)})
    assert finding.holds is holds, finding.sentence


def test_a_best_value_of_one_outlier_is_the_best_by_median_and_undecided() -> None:
    """At lr 1e-3 the median is 2.0 and the mean 2.47, at 1e-4 both are 2.3."""
    outlier, steady, higher = [2.0, 1.9, 3.5], [2.3, 2.31, 2.29], [2.6, 2.61, 2.59]
    best = CHECKS["best_at"].function(rates(steady, outlier, higher), 3, axis="lr", values=(1e-3,))
    assert best.measured.startswith("best at lr 0.001: ")
    assert best.decision is Decision.UNDECIDED
    grid = both((steady, outlier, higher), (steady, higher, higher))
    # the best rates by seed are 1e-3, 1e-3 and 1e-4, against 1e-4
    places = CHECKS["best_higher"].function(grid, 3, axis="lr", higher=PRE, lower=POST)
    assert (places.decision, "so with 2 of 3 seeds" in places.sentence) == (Decision.UNDECIDED, True)


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
