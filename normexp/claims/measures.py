"""Measures that checks can compare in addition to the table of runs: one number per run, from its traces."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from normexp.config.labels import loss_text
from normexp.config.run import RunConfig
from normexp.records.record import SignalRow, Traces
from normexp.storage.store import CURVE, DEATH, LAYERS

OF_ROW = ("final_val_loss", "learned_fraction", "init_val_loss")
"""Measures in the table of runs. A non-finite run has an infinite final loss."""
SPIKE, SPIKE_WINDOW = 0.5, 20
"""A spike exceeds the mean of the last SPIKE_WINDOW steps by SPIKE nats, five times the variation between batches."""


class Scale(StrEnum):
    """How numbers of a measure are compared: by their difference, or by their ratio.

    Positive measures that span decades (magnitudes, gradients, ratios, steps of death) are compared by their ratio:
    with geometric means, and intervals as factors.
    """

    LINEAR = "by difference"
    LOG = "by ratio"

    def number(self, value: float) -> float:
        """Return a value on this scale: itself or its natural logarithm, which is -inf for 0 and negative values."""
        if self is Scale.LINEAR:
            return value
        return math.log(value) if value > 0 else -math.inf

    def text(self, value: float) -> str:
        """Return a value as text: fixed digits, or on a scale by ratio three significant ones; empty for NaN."""
        return loss_text(value) if self is Scale.LINEAR or math.isnan(value) else f"{value:.3g}"

    def inverse(self, number: float) -> float:
        """Return the value of a number on this scale."""
        if self is Scale.LINEAR:
            return number
        try:
            return math.exp(number)
        except OverflowError:
            return math.inf


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a run (NaN if it was not measured), its scale, and the trace files that it is computed from."""

    of: Callable[[RunConfig, Traces], float]
    help: str
    reads: tuple[str, ...] = (LAYERS,)
    scale: Scale = Scale.LINEAR


def _early_loss(config: RunConfig, traces: Traces) -> float:
    """Return the first validation loss after step 0, infinite for NaN or a run that became non-finite earlier."""
    losses = [loss for step, loss in traces.evaluations if step > 0]
    return _or_inf(losses[0]) if losses else math.inf


def _or_inf(number: float) -> float:
    """Return infinity for NaN, since NaN would mean that a number was not measured."""
    return math.inf if math.isnan(number) else number


def _roughness(config: RunConfig, traces: Traces) -> float:
    """Return the standard deviation of the step-to-step change of the training loss over the last half.

    All runs have the same variation between batches. Infinite for a non-finite run.
    """
    losses = [row.train_loss for row in traces.curve if row.train_loss is not None and row.step > config.steps // 2]
    changes = [later - earlier for earlier, later in itertools.pairwise(losses)]
    if not _is_finite(config, traces, losses):
        return math.inf
    return statistics.stdev(changes) if len(changes) > 1 else math.nan


def _spikes(config: RunConfig, traces: Traces) -> float:
    """Return the number of spikes of the training loss in the last half of the steps. Infinite for a non-finite run."""
    losses = [row.train_loss for row in traces.curve if row.train_loss is not None]
    if not _is_finite(config, traces, losses):
        return math.inf
    start = max(SPIKE_WINDOW, len(losses) // 2)
    return sum(
        losses[at] - statistics.fmean(losses[at - SPIKE_WINDOW : at]) > SPIKE for at in range(start, len(losses))
    )


def _worst_rise(config: RunConfig, traces: Traces) -> float:
    """Return the largest rise of the validation loss above its best value so far. Infinite for a non-finite run."""
    losses = [loss for _, loss in traces.evaluations]
    if not _is_finite(config, traces, losses):
        return math.inf
    rises = (loss - best for loss, best in zip(losses[1:], itertools.accumulate(losses, min), strict=False))
    return max(0.0, max(rises, default=0.0))


def _is_finite(config: RunConfig, traces: Traces, losses: Iterable[float]) -> bool:
    """Return whether the curve reaches the last step, and these losses are finite."""
    return bool(traces.curve) and traces.curve[-1].step >= config.steps and all(map(math.isfinite, losses))


def _peak_stream(config: RunConfig, traces: Traces) -> float:
    """Return the largest magnitude of the residual stream: its RMS times the square root of its width."""
    rows = [*traces.layers, *traces.death_layers]
    sizes = [_or_inf(row.value) for row in rows if (row.part, row.quantity) == ("stream", "rms") and row.step > 0]
    return max(sizes, default=math.nan) * math.sqrt(config.width)


def _first_stream(config: RunConfig, traces: Traces) -> float:
    sizes = [row.value for row in _at(traces.layers, "stream", "rms", False)]
    return max(sizes, default=math.nan) * math.sqrt(config.width)


def _growth(last: bool) -> Callable[[RunConfig, Traces], float]:
    def growth(config: RunConfig, traces: Traces) -> float:
        sizes = {row.layer: row.value for row in _at(traces.layers, "stream", "rms", last)}
        if config.depth not in sizes or not sizes.get(0):
            return math.nan
        return sizes[config.depth] / sizes[0]

    return growth


def _bend(last: bool) -> Callable[[RunConfig, Traces], float]:
    """Measure the ratio of the mean square added per layer in the upper half to that in the lower half."""

    def bend(config: RunConfig, traces: Traces) -> float:
        squares = {row.layer: row.value**2 for row in _at(traces.layers, "stream", "rms", last)}
        middle, top = config.depth // 2, config.depth
        if middle == 0 or not {0, middle, top} <= set(squares) or squares[middle] <= squares[0]:
            return math.nan
        lower, upper = squares[middle] - squares[0], squares[top] - squares[middle]
        return (upper / (top - middle)) / (lower / middle)

    return bend


def _over_layers(
    part: str, quantity: str, last: bool, join: Callable[[list[float]], float]
) -> Callable[[RunConfig, Traces], float]:
    def joined(config: RunConfig, traces: Traces) -> float:
        values = [row.value for row in _at(traces.layers, part, quantity, last)]
        return join(values) if values else math.nan

    return joined


def _share_written(last: bool) -> Callable[[RunConfig, Traces], float]:
    """Measure the RMS of the last FFN's output over that of the first, each relative to the residual stream."""

    def share(config: RunConfig, traces: Traces) -> float:
        written = {row.layer: row.value for row in _at(traces.layers, "ffn", "rms", last)}
        stream = {row.layer: row.value for row in _at(traces.layers, "stream", "rms", last)}
        if not {1, config.depth} <= set(written) & set(stream):
            return math.nan
        return (written[config.depth] / stream[config.depth]) / (written[1] / stream[1])

    return share


def _mode_gap(config: RunConfig, traces: Traces) -> float:
    training = _at(traces.layers, "logits", "train_mode_loss", True)
    running = _at(traces.layers, "logits", "eval_mode_loss", True)
    return abs(running[0].value - training[0].value) if training and running else 0.0


def _leak(config: RunConfig, traces: Traces) -> float:
    rows = _at(traces.layers, "logits", "leak", True)
    return rows[0].value if rows else 0.0


def _at(rows: Iterable[SignalRow], part: str, quantity: str, last: bool) -> list[SignalRow]:
    """Return the rows of a quantity at the first or the last evaluation."""
    matching = [row for row in rows if row.part == part and row.quantity == quantity]
    step = (max if last else min)((row.step for row in matching), default=0)
    return [row for row in matching if row.step == step]


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "early_val_loss": Measure(_early_loss, "validation loss at the first evaluation after step 0", (CURVE,)),
        "roughness": Measure(_roughness, "std of the training loss's step-to-step change in the last half", (CURVE,)),
        "spikes": Measure(
            _spikes, "steps in the last half with a loss 0.5 nats above the mean of the previous 20", (CURVE,)
        ),
        "worst_rise": Measure(_worst_rise, "largest rise of the validation loss above its best value so far", (CURVE,)),
        "stream_norm_at_init": Measure(
            _first_stream, "largest magnitude of the residual stream over layers, before training", scale=Scale.LOG
        ),
        "peak_stream_norm": Measure(
            _peak_stream,
            "largest magnitude of the residual stream over layers, during training",
            (LAYERS, DEATH),
            Scale.LOG,
        ),
        "stream_growth_at_init": Measure(
            _growth(False),
            "RMS of the residual stream after the last layer over that of the embedding",
            scale=Scale.LOG,
        ),
        "stream_growth_after": Measure(_growth(True), "the same at the last evaluation", scale=Scale.LOG),
        "stream_bend_at_init": Measure(
            _bend(False), "mean square added to the residual stream per layer, upper over lower half", scale=Scale.LOG
        ),
        "stream_bend_after": Measure(_bend(True), "the same at the last evaluation", scale=Scale.LOG),
        "late_share_at_init": Measure(
            _share_written(False),
            "output RMS of the last FFN over that of the first, each relative to the stream",
            scale=Scale.LOG,
        ),
        "late_share_after": Measure(_share_written(True), "the same at the last evaluation", scale=Scale.LOG),
        "max_logit_at_init": Measure(
            _over_layers("mixer", "max_logit", False, max), "largest attention logit", scale=Scale.LOG
        ),
        "max_logit_after": Measure(
            _over_layers("mixer", "max_logit", True, max), "the same at the last evaluation", scale=Scale.LOG
        ),
        "entropy_at_init": Measure(
            _over_layers("mixer", "attention_entropy", False, min), "lowest attention entropy of a layer (nats)"
        ),
        "entropy_after": Measure(
            _over_layers("mixer", "attention_entropy", True, min), "the same at the last evaluation"
        ),
        "mode_gap": Measure(_mode_gap, "train/eval gap of BatchNorm: difference of the losses, after training"),
        "leak": Measure(
            _leak,
            "change of earlier logits caused by later tokens, after training; 0 for per-token norms",
            scale=Scale.LOG,
        ),
    }
)
"""Measures by name."""


def scale_of(measure: str) -> Scale:
    """Return the scale of a measure. Those in the table of runs are compared by their difference."""
    return MEASURES[measure].scale if measure in MEASURES else Scale.LINEAR
