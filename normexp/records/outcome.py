"""The rules that turn the measurements of a run into an outcome. They are defined nowhere else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normexp.records.record import Outcome, Result, Verdict

BLOWN_UP = 1.05
"""A loss above this multiple of ln(vocab), the loss of a uniform prediction, is worse than a uniform prediction."""
LEARNED_FRACTION = 0.03
"""A run with a smaller learned fraction is a plateau."""
MUCH = 0.5
"""Learned runs with a smaller learned fraction are reported as closing less than half of the learnable gap."""
TREND = 0.02
"""Relative change of the validation loss over the last quarter of training that counts as falling or rising."""

RULES = {
    Outcome.NONFINITE: "the loss, a gradient, a parameter, the optimizer state or the validation loss was NaN or Inf",
    Outcome.DIVERGED: f"final validation loss above max({BLOWN_UP} ln vocab, initial validation loss)",
    Outcome.UNSETTLED: f"otherwise, final validation loss above {BLOWN_UP} ln vocab",
    Outcome.PLATEAU: f"otherwise, learned fraction below {LEARNED_FRACTION}",
    Outcome.LEARNED: "otherwise",
}


def judge(result: Result, evaluations: Sequence[tuple[int, float]], *, vocab: int, steps: int) -> Verdict:
    """Apply the rules in order. `evaluations` are (step, validation loss in nats) pairs."""
    limit = BLOWN_UP * math.log(vocab)
    thresholds = {"blown_up": BLOWN_UP, "learned_fraction": LEARNED_FRACTION, "trend": TREND}
    if result.death is not None:
        rule = f"{result.death.fault} at step {result.death.step}"
        return Verdict(outcome=Outcome.NONFINITE, rule=rule, trend=None, thresholds=thresholds)
    initial, final = evaluations[0][1], evaluations[-1][1]
    fraction = result.losses.learned_fraction(final)
    if final > max(limit, initial):
        outcome, rule = Outcome.DIVERGED, f"final {final:.4g} > max({limit:.4g}, initial {initial:.4g})"
    elif final > limit:
        outcome, rule = Outcome.UNSETTLED, f"initial {initial:.4g} >= final {final:.4g} > {limit:.4g}"
    elif fraction < LEARNED_FRACTION:
        outcome, rule = Outcome.PLATEAU, f"learned fraction {fraction:.3f} < {LEARNED_FRACTION}"
    else:
        outcome, rule = Outcome.LEARNED, f"learned fraction {fraction:.3f} >= {LEARNED_FRACTION}"
    return Verdict(outcome=outcome, rule=rule, trend=trend(evaluations, steps), thresholds=thresholds)


def at_threshold(outcome: Outcome, learned_fraction: float, threshold: float) -> Outcome:
    """Return the outcome of a run if the rule of a plateau had another threshold. Others do not depend on it."""
    if outcome not in (Outcome.PLATEAU, Outcome.LEARNED):
        return outcome
    return Outcome.PLATEAU if learned_fraction < threshold else Outcome.LEARNED


def trend(evaluations: Sequence[tuple[int, float]], steps: int) -> str | None:
    """Compare the last evaluation with the last one in the first three quarters of training; None if there is none."""
    earlier = [loss for step, loss in evaluations if 0 < step <= 0.75 * steps]
    if not earlier:
        return None
    change = evaluations[-1][1] / earlier[-1] - 1
    return "falling" if change < -TREND else "rising" if change > TREND else "flat"
