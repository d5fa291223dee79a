"""Sensitivity S of the final loss to a swept hyperparameter such as the learning rate, and 95 % intervals of means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normexp.schemes.network_config import Value


def half_interval(values: Sequence[float]) -> float:
    """Return half the width of the 95 % t-interval of the mean of at least two values."""
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """The parts of a run that S needs: id, losses in nats (infinite for non-finite ones), and whether it learned."""

    run_id: str
    final: float
    initial: float
    learned: bool


Scan = Mapping[Value, Mapping[int, ScannedRun]]
"""The runs of one line: by value of the swept key, then by seed."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """S of a line by seed, over `count` values of the swept key. If it has no S, `by_seed` is empty for `reason`."""

    by_seed: Mapping[int, float]
    count: int
    reason: str = ""

    @property
    def mean(self) -> float | None:
        """Mean of S over seeds in nats, or None."""
        return statistics.fmean(self.by_seed.values()) if self.by_seed else None


def sensitivities(scans: Sequence[Scan]) -> list[Sensitivity]:
    """Return S of each line, over the values that all lines with an S share: S is comparable only over equal values.

    A line has no S if a value lacks one of its seeds, or if a seed learns at no value: S of a network that learns
    nothing is near 0.
    """
    reasons = [_reason_against(scan) for scan in scans]
    compared = [scan for scan, reason in zip(scans, reasons, strict=True) if not reason]
    values = shared_values(compared)
    return [
        Sensitivity({}, 0, reason) if reason else _over(scan, values)
        for scan, reason in zip(scans, reasons, strict=True)
    ]


def shared_values(scans: Sequence[Scan]) -> list[Value]:
    """Return the values that all lines have, in the order of the first line."""
    first, *others = scans or [{}]
    return [value for value in first if all(value in other for other in others)]


def sensitivity(final: Sequence[float], initial: Sequence[float]) -> float:
    """Return S of one seed in nats: the mean of min(final, initial loss) over the swept values, minus their minimum.

    `final` and `initial` hold one loss per value; NaN counts as infinite. S is the expected distance from the optimum,
    with losses capped at the loss before training (Wortsman et al. 2023, 2309.14322, section 2). It depends on the
    swept range, and is 0 if nothing learns. Raises ValueError for no losses or unequal numbers of them.
    """
    losses = _capped(final, initial)
    lowest = min(losses)
    return statistics.fmean(losses) - lowest if math.isfinite(lowest) else math.nan


def mean_loss(final: Sequence[float], initial: Sequence[float]) -> float:
    """Return the mean of min(final, initial loss) over the swept values, in nats; see `sensitivity`."""
    return statistics.fmean(_capped(final, initial))


def distinct_runs(scan: Scan, values: Sequence[Value], seed: int) -> list[ScannedRun]:
    """Return the distinct runs of a seed at these values."""
    return list({scan[value][seed].run_id: scan[value][seed] for value in values}.values())


def _reason_against(scan: Scan) -> str:
    """Return why a line has no S over its values, or an empty string."""
    if len(scan) < 2:
        return "fewer than two values"
    seeds = set().union(*scan.values())
    if not seeds or any(set(by_seed) != seeds for by_seed in scan.values()):
        return "not all runs are done"
    return _nothing_learned(scan, list(scan))


def _nothing_learned(scan: Scan, values: Sequence[Value]) -> str:
    seeds = sorted(scan[values[0]])
    failing = [seed for seed in seeds if not any(run.learned for run in distinct_runs(scan, values, seed))]
    if not failing:
        return ""
    return "no run learned" if failing == seeds else f"no run learned with seed {', '.join(map(str, failing))}"


def _over(scan: Scan, values: Sequence[Value]) -> Sensitivity:
    if len(values) < 2:
        return Sensitivity({}, len(values), "the lines share fewer than two values")
    if reason := _nothing_learned(scan, values):
        return Sensitivity({}, len(values), f"{reason} at the values that all lines share")
    runs_by_seed = {seed: distinct_runs(scan, values, seed) for seed in scan[values[0]]}
    if any(len(runs) < 2 for runs in runs_by_seed.values()):
        return Sensitivity({}, len(values), "all values are answered by one run")
    by_seed = {
        seed: sensitivity([run.final for run in runs], [run.initial for run in runs])
        for seed, runs in runs_by_seed.items()
    }
    return Sensitivity(by_seed, len(values))


def _capped(final: Sequence[float], initial: Sequence[float]) -> list[float]:
    if not final or len(final) != len(initial):
        raise ValueError(
            f"{len(final)} final and {len(initial)} initial losses: need one of each per value, at least one"
        )
    return [min(_or_inf(after), _or_inf(before)) for after, before in zip(final, initial, strict=True)]


def _or_inf(loss: float) -> float:
    return math.inf if math.isnan(loss) else loss
