"""Sensitivity of the final loss to a setting that is scanned, the learning rate above all.

The interval in which the mean of a few values lies.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normexp.schemes.network_config import Value


def half_interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % t-interval of a mean, of two values or more."""
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """What S needs of a run: its id, its losses in nats (not finite: infinite), and whether its outcome is learned."""

    run_id: str
    final: float
    initial: float
    learned: bool


Scan = Mapping[Value, Mapping[int, ScannedRun]]
"""A line of a scan: the runs at each value of the setting, by seed."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """S of a line by seed, over `count` values of the setting; empty where it has none, for the `reason` given."""

    by_seed: Mapping[int, float]
    count: int
    reason: str = ""

    @property
    def mean(self) -> float | None:
        """S over seeds in nats, None where there is none."""
        return statistics.fmean(self.by_seed.values()) if self.by_seed else None


def sensitivities(scans: Sequence[Scan]) -> list[Sensitivity]:
    """S of each line, over the values that all lines with an S have: over other values, S does not compare.

    A line has no S where a value lacks one of its seeds, or where one of its seeds learns at no value: S of a network
    that learns nothing is near 0 whatever it does.
    """
    reasons = [_reason_against(scan) for scan in scans]
    compared = [scan for scan, reason in zip(scans, reasons, strict=True) if not reason]
    values = shared_values(compared)
    return [
        Sensitivity({}, 0, reason) if reason else _over(scan, values)
        for scan, reason in zip(scans, reasons, strict=True)
    ]


def shared_values(scans: Sequence[Scan]) -> list[Value]:
    """The values that all lines have, in the order of the first."""
    first, *others = scans or [{}]
    return [value for value in first if all(value in other for other in others)]


def sensitivity(final: Sequence[float], initial: Sequence[float]) -> float:
    """Mean over the values of a setting of min(final, initial loss), less the lowest of these; in nats, at least 0.

    `final` and `initial` are the losses of one seed, one a value; NaN counts as infinite. It is the expected distance
    from the optimum, with a loss no worse than that before training (Wortsman et al. 2023, 2309.14322, section 2).
    It depends on the range that is scanned, and is 0 where nothing learns. Raises ValueError where there are none.
    """
    losses = _capped(final, initial)
    lowest = min(losses)
    return statistics.fmean(losses) - lowest if math.isfinite(lowest) else math.nan


def mean_loss(final: Sequence[float], initial: Sequence[float]) -> float:
    """Mean over the values of a setting of min(final, initial loss), in nats; see `sensitivity`."""
    return statistics.fmean(_capped(final, initial))


def distinct_runs(scan: Scan, values: Sequence[Value], seed: int) -> list[ScannedRun]:
    """The runs of a seed at these values; one that answers several values stands once."""
    return list({scan[value][seed].run_id: scan[value][seed] for value in values}.values())


def _reason_against(scan: Scan) -> str:
    """Why a line has no S over its own values; empty where it has one."""
    if len(scan) < 2:
        return "it has fewer than two values"
    seeds = set().union(*scan.values())
    if not seeds or any(set(by_seed) != seeds for by_seed in scan.values()):
        return "not all of its runs are done"
    return _nothing_learned(scan, list(scan))


def _nothing_learned(scan: Scan, values: Sequence[Value]) -> str:
    seeds = sorted(scan[values[0]])
    barren = [seed for seed in seeds if not any(run.learned for run in distinct_runs(scan, values, seed))]
    if not barren:
        return ""
    return "no run learned" if barren == seeds else f"no run learned with seed {', '.join(map(str, barren))}"


def _over(scan: Scan, values: Sequence[Value]) -> Sensitivity:
    if len(values) < 2:
        return Sensitivity({}, len(values), "the lines share fewer than two values")
    if reason := _nothing_learned(scan, values):
        return Sensitivity({}, len(values), f"{reason} at the values that all lines share")
    runs = {seed: distinct_runs(scan, values, seed) for seed in scan[values[0]]}
    if any(len(found) < 2 for found in runs.values()):
        return Sensitivity({}, len(values), "one run answers all of its values")
    by_seed = {
        seed: sensitivity([run.final for run in found], [run.initial for run in found]) for seed, found in runs.items()
    }
    return Sensitivity(by_seed, len(values))


def _capped(final: Sequence[float], initial: Sequence[float]) -> list[float]:
    if not final or len(final) != len(initial):
        raise ValueError(f"{len(final)} final losses and {len(initial)} initial ones: one of each is needed a value")
    return [min(_or_inf(after), _or_inf(before)) for after, before in zip(final, initial, strict=True)]


def _or_inf(loss: float) -> float:
    return math.inf if math.isnan(loss) else loss
