"""What a check may compare of a run besides its row: one number each, from what the training left step by step."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from normexp.config.run import RunConfig
from normexp.records.record import SignalRow, Traces
from normexp.storage.store import CURVE, DEATH, LAYERS

OF_ROW = ("final_val_loss", "learned_fraction", "init_val_loss")
"""Measures that the table of runs holds. A run that died non-finite has an infinite final loss."""

SPIKE, SPIKE_WINDOW = 0.5, 20
"""Nats that make a spike, and the updates above whose mean it stands: batches differ by less than a fifth of that."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a run, NaN where it was not measured, and the files of traces that it comes from."""

    of: Callable[[RunConfig, Traces], float]
    help: str
    reads: tuple[str, ...] = (LAYERS,)


def _early_loss(config: RunConfig, traces: Traces) -> float:
    """Infinite where it is NaN, or where a run died before."""
    losses = [loss for step, loss in traces.evaluations if step > 0]
    return _or_inf(losses[0]) if losses else math.inf


def _or_inf(number: float) -> float:
    """A NaN is a result: it counts as infinite, and never as not measured."""
    return math.inf if math.isnan(number) else number


def _roughness(config: RunConfig, traces: Traces) -> float:
    """Steps of the training loss over its last half, about their own mean: batches differ alike in every run.

    Infinite where a run died.
    """
    losses = [row.train_loss for row in traces.curve if row.train_loss is not None and row.step > config.steps // 2]
    moves = [later - earlier for earlier, later in itertools.pairwise(losses)]
    if not _survived(config, traces, losses):
        return math.inf
    return statistics.stdev(moves) if len(moves) > 1 else math.nan


def _spikes(config: RunConfig, traces: Traces) -> float:
    """Updates of the last half whose training loss is more than 0.5 nats above the mean of the 20 before.

    Infinite where a run died.
    """
    losses = [row.train_loss for row in traces.curve if row.train_loss is not None]
    if not _survived(config, traces, losses):
        return math.inf
    start = max(SPIKE_WINDOW, len(losses) // 2)
    return sum(
        losses[at] - statistics.fmean(losses[at - SPIKE_WINDOW : at]) > SPIKE for at in range(start, len(losses))
    )


def _worst_rise(config: RunConfig, traces: Traces) -> float:
    """The most that an evaluation lies above the best one before it. Infinite where a run died."""
    losses = [loss for _, loss in traces.evaluations]
    if not _survived(config, traces, losses):
        return math.inf
    rises = (loss - best for loss, best in zip(losses[1:], itertools.accumulate(losses, min), strict=False))
    return max(0.0, max(rises, default=0.0))


def _survived(config: RunConfig, traces: Traces, losses: Iterable[float]) -> bool:
    """Whether the curve goes on to the last step, and these losses of it are finite."""
    return bool(traces.curve) and traces.curve[-1].step >= config.steps and all(map(math.isfinite, losses))


def _peak_stream(config: RunConfig, traces: Traces) -> float:
    """The stream's norm is its RMS times the root of its width."""
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
    """What a layer of the upper half adds to the stream's mean square, over what one of the lower half adds."""

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
    """RMS of what the last layer's FFN writes over that of what the first one's writes, each against its stream."""

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
    found = _at(traces.layers, "logits", "leak", True)
    return found[0].value if found else 0.0


def _at(rows: Iterable[SignalRow], part: str, quantity: str, last: bool) -> list[SignalRow]:
    """What was measured at the first or at the last evaluation."""
    found = [row for row in rows if row.part == part and row.quantity == quantity]
    step = (max if last else min)((row.step for row in found), default=0)
    return [row for row in found if row.step == step]


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "early_val_loss": Measure(_early_loss, "validation loss at the first evaluation after step 0", (CURVE,)),
        "roughness": Measure(_roughness, "spread of the steps of the training loss over its last half", (CURVE,)),
        "spikes": Measure(
            _spikes, "updates of the last half whose loss is 0.5 nats above the mean of 20 before", (CURVE,)
        ),
        "worst_rise": Measure(_worst_rise, "the most that an evaluation lies above the best before it", (CURVE,)),
        "stream_norm_at_init": Measure(_first_stream, "the largest norm of the stream over the layers before training"),
        "peak_stream_norm": Measure(
            _peak_stream, "the largest norm of the stream once training has begun", (LAYERS, DEATH)
        ),
        "stream_growth_at_init": Measure(_growth(False), "RMS of the stream after the last layer over the embedding's"),
        "stream_growth_after": Measure(_growth(True), "the same at the last evaluation"),
        "stream_bend_at_init": Measure(_bend(False), "added by a layer of the upper half over one of the lower"),
        "stream_bend_after": Measure(_bend(True), "the same at the last evaluation"),
        "late_share_at_init": Measure(_share_written(False), "what the last FFN writes relative to the first one's"),
        "late_share_after": Measure(_share_written(True), "the same at the last evaluation"),
        "max_logit_at_init": Measure(_over_layers("mixer", "max_logit", False, max), "the largest attention logit"),
        "max_logit_after": Measure(_over_layers("mixer", "max_logit", True, max), "the same at the last evaluation"),
        "entropy_at_init": Measure(
            _over_layers("mixer", "attention_entropy", False, min), "the lowest attention entropy of a layer (nats)"
        ),
        "entropy_after": Measure(
            _over_layers("mixer", "attention_entropy", True, min), "the same at the last evaluation"
        ),
        "mode_gap": Measure(_mode_gap, "loss with running against loss with batch statistics, after training"),
        "leak": Measure(_leak, "change of earlier logits by later tokens, after training; 0 for a norm of each token"),
    }
)
"""Name to measure."""
