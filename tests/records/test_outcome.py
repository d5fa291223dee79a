import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.records.outcome import at_threshold, judge, trend
from normexp.records.record import Death, Losses, Outcome, Result

LIMIT = 1.05 * math.log(64)
LOSSES = Losses(floor=1.0, guess=4.0, bigram=2.0)


def result(initial: float, final: float | None, death: Death | None = None) -> Result:
    return Result(
        steps_done=100,
        losses=LOSSES,
        init_val_loss=initial,
        best_val_loss=1.0,
        final_val_loss=final,
        peak_lr=1e-3,
        parameters=1,
        death=death,
    )


def outcome(initial: float, final: float) -> Outcome:
    return judge(result(initial, final), [(0, initial), (100, final)], vocab=64, steps=100).outcome


@pytest.mark.parametrize(
    ("initial", "final", "expected"),
    [
        (4.3, 1.2, Outcome.LEARNED),
        (4.3, 3.90, Outcome.LEARNED),
        (4.3, 3.92, Outcome.PLATEAU),
        (4.3, 4.05, Outcome.PLATEAU),
        (4.3, LIMIT - 1e-9, Outcome.PLATEAU),
        (4.3, LIMIT + 1e-9, Outcome.DIVERGED),
        (900.0, 5.0, Outcome.UNSETTLED),
        (900.0, 899.0, Outcome.UNSETTLED),
        (900.0, 901.0, Outcome.DIVERGED),
        (4.3, 4.1e26, Outcome.DIVERGED),
    ],
)
def test_the_rules_in_order(initial: float, final: float, expected: Outcome) -> None:
    assert outcome(initial, final) is expected


def test_another_threshold_moves_the_border_of_a_plateau_alone() -> None:
    assert at_threshold(Outcome.LEARNED, 0.04, 0.05) is Outcome.PLATEAU
    assert at_threshold(Outcome.PLATEAU, 0.025, 0.02) is Outcome.LEARNED
    assert at_threshold(Outcome.LEARNED, 0.05, 0.05) is Outcome.LEARNED
    for outcome in (Outcome.NONFINITE, Outcome.DIVERGED, Outcome.UNSETTLED):
        assert at_threshold(outcome, -math.inf, 0.02) is outcome


def test_a_death_is_nonfinite_regardless_of_losses() -> None:
    death = Death(step=7, kind="inf", where="grad", tensor="blocks.3.ffn.f.fc1.weight", layer=3)
    verdict = judge(result(4.3, None, death), [(0, 4.3)], vocab=64, steps=100)
    assert verdict.outcome is Outcome.NONFINITE
    assert verdict.rule == "inf in grad at step 7"
    assert verdict.trend is None


@pytest.mark.parametrize(
    ("evaluations", "expected"),
    [
        ([(0, 4.0), (500, 2.0), (800, 1.9)], "falling"),
        ([(0, 4.0), (500, 2.0), (800, 1.99)], "flat"),
        ([(0, 4.0), (500, 2.0), (800, 2.05)], "rising"),
        ([(0, 4.0), (600, 2.0), (601, 9.0), (800, 2.0)], "flat"),
        ([(0, 4.0), (800, 3.0)], None),
    ],
)
def test_trend_compares_the_end_with_three_quarters(evaluations: list[tuple[int, float]], expected: str | None) -> None:
    assert trend(evaluations, 800) == expected


@given(st.floats(0.01, 1e30), st.floats(0.01, 1e30))
def test_every_finite_pair_has_an_outcome_and_a_rule(initial: float, final: float) -> None:
    verdict = judge(result(initial, final), [(0, initial), (100, final)], vocab=64, steps=100)
    assert verdict.outcome is not Outcome.NONFINITE
    assert verdict.rule
    if verdict.outcome is Outcome.LEARNED:
        assert LOSSES.learned_fraction(final) >= 0.03


def test_learned_fractions() -> None:
    assert LOSSES.learned_fraction(math.nan) == -math.inf
    assert LOSSES.learned_fraction(1.0) == 1.0
    assert LOSSES.learned_fraction(4.0) == 0.0
