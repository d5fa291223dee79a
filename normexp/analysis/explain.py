"""Explain one run: its config, its outcome and the rule behind it, and how the nearest run that learned differs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from normexp.config.labels import Labels, loss_text, plural
from normexp.config.run import KEYS, RunConfig
from normexp.records.outcome import LEARNED_FRACTION
from normexp.records.record import Death, Outcome, Result, RunRecord, SignalRow, Traces, sizes_by_step
from normexp.schemes.network_config import Value

NOTABLE = 10
"""Changes by less than this factor are not reported."""
VANISHING = 100
"""Factor by which a gradient that vanishes on its way back is smaller in the first layer than in the last."""
SAME = 2
"""A quantity that changes by less than this factor from layer to layer is about the same."""
MAX_STEPS = 200
"""Number of recorded steps that are searched for the fastest change."""
LARGEST = MappingProxyType({"float32": 3.4028235e38, "bfloat16": 3.3895314e38, "float16": 65504.0})
"""Largest finite number of each dtype."""

Sizes = Mapping[int, float]
"""A quantity by layer."""


def story(record: RunRecord, others: Iterable[RunRecord]) -> list[str]:
    """Return the explanation of a run, one line per entry. The nearest run that learned is searched among `others`."""
    candidates = list(others)
    configs = (RunConfig(), record.config, *(other.config for other in candidates))
    labels = Labels.among(config.to_dict() for config in configs)
    lines = [record.run_id, f"  config: {_config(record.config, labels)}", *(f"  {fact}" for fact in facts(record))]
    lines += [f"  {line}" for line in reasons(record)]
    neighbour = nearest(record, candidates)
    if neighbour is not None:
        lines.append(f"  nearest run that learned: {_difference(record.config, neighbour, labels)}")
        lines.append(f"    {neighbour.run_id}, loss {_loss(_final(neighbour))}")
    environment = ", ".join(f"{name} {value}" for name, value in record.environment.items())
    outdated = "; OUTDATED: this version gives other numbers" if record.outdated else ""
    reused = f"; reused from {record.reused_from}" if record.reused_from else ""
    return [*lines, f"  made with: {environment or 'unknown'}{reused}{outdated}"]


def facts(record: RunRecord) -> list[str]:
    """Return the status, error, outcome, rule and losses of a run, one phrase each."""
    phrases = [f"status: {record.status}"]
    if record.error:
        phrases.append(f"error: {record.error}")
    if record.verdict is not None:
        trend = f"; trend {record.verdict.trend}" if record.verdict.trend else ""
        phrases.append(f"outcome: {record.verdict.outcome}, since {record.verdict.rule}{trend}")
    return phrases + _result(record)


def _config(config: RunConfig, labels: Labels) -> str:
    """List the keys that differ from their defaults."""
    default = RunConfig()
    changed = [name for name in KEYS if getattr(config, name) != getattr(default, name)]
    return ", ".join(f"{name}={labels.text(name, getattr(config, name))}" for name in changed) or "all defaults"


def _result(record: RunRecord) -> list[str]:
    result = record.result
    if result is None:
        return []
    lines = []
    if result.death is not None:
        death = result.death
        lines.append(f"became non-finite: step {death.step}, {death.fault} {death.tensor} (layer {death.layer})")
    final, losses = result.final_val_loss, result.losses
    lines.append(
        f"validation loss: {_loss(result.init_val_loss)} before training, best {_loss(result.best_val_loss)}, "
        f"final {_loss(final)} after {result.steps_done} updates"
    )
    references = {"entropy floor": losses.floor, "bigram loss": losses.bigram, "unigram loss": losses.guess}
    lines.append(f"reference: {', '.join(f'{name} {loss_text(loss)}' for name, loss in references.items())}")
    if final is not None and math.isfinite(final):
        lines.append(f"learned fraction: {losses.learned_fraction(final):.3f}")
    return lines


def reasons(record: RunRecord) -> list[str]:
    """Return why a run did not learn, as far as its record tells: one sentence per line, the first after `why: `.

    The sentences say which pass broke, which quantity changed by which factor, and in which steps and layers. A run
    that learned or has no result has no lines.
    """
    result = record.result
    if result is None or record.verdict is None or record.verdict.outcome is Outcome.LEARNED:
        return []
    traces, depth = record.traces or Traces(curve=()), record.config.depth
    stream, gradient, logit = (_by_step(traces, quantity) for quantity in (_stream, _gradient, _logit))
    changes = [
        _change("RMS of the residual stream", stream, depth),
        _change("gradient norm per layer", gradient, depth),
        _change("largest attention logit", logit, depth),
    ]
    backward = _backward(gradient, depth)
    sentences = (
        [_broken(record, result.death, stream), backward] if result.death else [backward, *_losses(record, result)]
    )
    sentences += [_forward(stream, depth), *changes]
    if len(stream) < 2:
        steps = "of one step only" if stream else "of no step"
        sentences.append(
            f"Not known: how activations and gradients changed; the record has the signal by layer {steps}."
        )
    elif not any(changes):
        sentences.append(
            f"Activations, gradients and attention logits changed less than {NOTABLE}-fold in every layer."
        )
    why, *rest = filter(None, sentences)
    return [f"why: {why}", *(f"  {sentence}" for sentence in rest)]


def _stream(rows: Iterable[SignalRow]) -> dict[int, dict[int, float]]:
    return sizes_by_step(rows, "stream", "rms")


def _logit(rows: Iterable[SignalRow]) -> dict[int, dict[int, float]]:
    return sizes_by_step(rows, "mixer", "max_logit")


def _gradient(rows: Iterable[SignalRow]) -> dict[int, dict[int, float]]:
    """Return the gradient norm of each layer: of its mixer and its FFN together."""
    mixer, ffn = (sizes_by_step(rows, part, "grad_norm") for part in ("mixer", "ffn"))
    return {
        step: {layer: math.hypot(size, ffn.get(step, {}).get(layer, 0.0)) for layer, size in sizes.items()}
        for step, sizes in mixer.items()
    }


def _by_step(
    traces: Traces, quantity: Callable[[Sequence[SignalRow]], dict[int, dict[int, float]]]
) -> dict[int, Sizes]:
    """Return a quantity at all recorded steps, in order: the evaluations, and the last steps of a non-finite run."""
    sizes = quantity(traces.layers) | quantity(traces.death_layers)
    return {step: sizes[step] for step in sorted(sizes)}


def _broken(record: RunRecord, death: Death, stream: Mapping[int, Sizes]) -> str:
    """Say which pass of a non-finite run broke, and where."""
    place = _layer(death.layer, record.config.depth)
    became = "overflowed" if death.kind == "inf" else "became NaN"
    when = f"after step {death.step}" if death.step else "before training"
    finite = "The forward and the backward pass were finite."
    cause, also = {
        "activation": (
            f"The forward pass {became} at {place}",
            _squares(record.config, stream) if "norm" in death.tensor else "",
        ),
        "loss": (f"The loss {became}", "The forward pass was finite up to the logits."),
        "grad": (f"The gradient {became} on its way back, at {place}", "The forward pass was finite."),
        "param": (f"Update {death.step} made a weight of {place} non-finite", finite),
        "optimizer": (f"A second moment of Adam, the square of a gradient of {place}, overflowed", finite),
        "validation": (f"The evaluation {when} {became} at {place}", "Training was finite." if death.step else ""),
    }[death.where]
    layer, change = _largest_change(stream)
    grown = f"; activations had grown {_fold(change)} in {plural(death.step, 'step')}" if layer and change > 0 else ""
    dtype = record.config.dtype
    limit = "" if dtype == "float32" else f"The largest {dtype} number is {LARGEST[dtype]:.3g}."
    return " ".join(filter(None, (f"{cause}{grown}.", also, limit)))


def _squares(config: RunConfig, stream: Mapping[int, Sizes]) -> str:
    """Say whether the squares that norms compute exceed the largest number, as far as the RMS of the stream tells."""
    largest = max((size for size in _last(stream).values() if math.isfinite(size)), default=0.0)
    dtype = config.dtype if config.norm_dtype == "same" else "float32"
    if largest**2 <= LARGEST[dtype]:
        return ""
    return f"The square of the stream's RMS, {largest:.2g}, exceeds the largest {dtype} number, {LARGEST[dtype]:.2g}."


def _losses(record: RunRecord, result: Result) -> list[str]:
    """Say how the validation loss of a finite run changed."""
    evaluations = record.traces.evaluations if record.traces else []
    best, final = min(((loss, step) for step, loss in evaluations), default=None), result.final_val_loss
    if best is None or final is None:
        return ["Not known: how the loss changed; the record has no curve."]
    when = f"after step {best[1]}" if best[1] else "before training"
    if record.result_word != Outcome.PLATEAU:
        start = f"The validation loss was {_loss(result.init_val_loss)} before training"
        return [f"{start} and {_loss(final)} at the end; the lowest was {_loss(best[0])}, {when}."]
    learned = result.losses.learned_fraction(best[0])
    if learned < LEARNED_FRACTION:
        share = f"{100 * LEARNED_FRACTION:.0f} % of the learnable gap"
        return [f"At no evaluation had the network learned {share}; the lowest loss was {_loss(best[0])}, {when}."]
    return [f"The network had learned {100 * learned:.0f} % of the learnable gap {when}, and lost it again."]


def _change(name: str, by_step: Mapping[int, Sizes], depth: int) -> str:
    """Say at which layer a quantity changed most from the first to the last recorded step; empty for a small change."""
    layer, change = _largest_change(by_step)
    if not layer:
        return ""
    first, *_, last = by_step
    begin = f"at step {first}" if first else "before training"
    sizes = f"from {by_step[first][layer]:.3g} {begin} to {by_step[last][layer]:.3g} at step {last}"
    fastest = _fastest(by_step, layer, change)
    return f"During training, the {name} {_grew(change)} at {_layer(layer, depth)}, {sizes}{fastest}."


def _largest_change(by_step: Mapping[int, Sizes]) -> tuple[int, float]:
    """Return the layer with the largest change, and the logarithm of its factor; layer 0 if all changes are small."""
    if len(by_step) < 2:
        return 0, 0.0
    first, *_, last = by_step.values()
    changes = {layer: _log_ratio(last.get(layer, math.nan), size) for layer, size in first.items() if layer}
    layer = max(changes, key=lambda layer: abs(changes[layer]), default=0)
    return (layer, changes[layer]) if abs(changes.get(layer, 0.0)) >= math.log(NOTABLE) else (0, 0.0)


def _fastest(by_step: Mapping[int, Sizes], layer: int, change: float) -> str:
    """Name the shortest part of the steps in which a quantity made half of its change, in powers of ten."""
    sizes = [(step, sizes[layer]) for step, sizes in by_step.items() if 0 < sizes.get(layer, 0) < math.inf]
    sizes = sizes[:: -(-len(sizes) // MAX_STEPS)]
    parts = [
        (end - start, start, end, _log_ratio(after, before))
        for number, (start, before) in enumerate(sizes)
        for end, after in sizes[number + 1 :]
        if _log_ratio(after, before) / change >= 1 / 2
    ]
    if len(sizes) < 3 or not parts:
        return ""
    _, start, end, part = min(parts)
    return f"; fastest between steps {start} and {end} ({_fold(part)})"


def _backward(gradient: Mapping[int, Sizes], depth: int) -> str:
    """Say how the gradient norm changes from the last layer to the first, at the last step with finite norms."""
    change, clause = _across("the gradient norm", gradient, depth, backward=True)
    vanishes = change < -math.log(VANISHING)
    return f"The gradient vanishes on its way back: {clause}" if vanishes else clause[:1].upper() + clause[1:]


def _forward(stream: Mapping[int, Sizes], depth: int) -> str:
    """Say how the RMS of the residual stream changes from the embedding to the last layer."""
    blocks = {step: {layer: size for layer, size in sizes.items() if layer <= depth} for step, sizes in stream.items()}
    clause = _across("the RMS of the residual stream", blocks, depth, backward=False)[1]
    return clause[:1].upper() + clause[1:]


def _across(name: str, by_step: Mapping[int, Sizes], depth: int, *, backward: bool) -> tuple[float, str]:
    """Return the logarithm of the factor between a pass's first and last finite layers, and a clause on it.

    Both are of the last recorded step that has two finite layers. The clause is empty for a small factor.
    """
    finite = {step: _until_nonfinite(sizes, backward=backward) for step, sizes in by_step.items()}
    step = max((step for step, sizes in finite.items() if len(sizes) > 1), default=None)
    if step is None:
        return 0.0, ""
    (begin, first), (end, last) = finite[step][0], finite[step][-1]
    change = _log_ratio(last, first)
    if abs(change) < math.log(NOTABLE):
        return change, ""
    start = by_step[0] if step and {begin, end} <= by_step.get(0, {}).keys() else {}
    before = f"; before training it {_grew(_log_ratio(start[end], start[begin]))}" if start else ""
    when = f"at step {step}" if step else "before training"
    layers = f"from {_layer(begin, depth)} to {_layer(end, depth)}"
    rest = sorted(by_step[step].items(), reverse=backward)[len(finite[step]) :]
    zero = ", and was 0 after that" if rest and rest[0][1] == 0 else ""
    return change, f"{when}, {name} {_grew(change)} {layers}, from {first:.2g} to {last:.2g}{zero}{before}."


def _until_nonfinite(sizes: Sizes, *, backward: bool) -> list[tuple[int, float]]:
    """Return layers and sizes in the order of the pass, up to the first that is not a positive finite number."""
    ordered = sorted(sizes.items(), reverse=backward)
    return list(itertools.takewhile(lambda item: 0 < item[1] < math.inf, ordered))


def _last(by_step: Mapping[int, Sizes]) -> Sizes:
    return by_step[max(by_step)] if by_step else {}


def _log_ratio(after: float, before: float) -> float:
    """Return ln(after / before), or 0 if one of them is not a positive number."""
    positive = all(0 < size < math.inf for size in (after, before))
    return math.log(after) - math.log(before) if positive else 0.0


def _grew(change: float) -> str:
    if abs(change) < math.log(SAME):
        return "was about the same"
    return f"{'grew' if change > 0 else 'fell'} {_fold(change)}"


def _fold(change: float) -> str:
    """Return the factor of a change given as a logarithm, at least 1: `25-fold`, `1.9e+07-fold`."""
    factor = math.exp(min(abs(change), 700.0))
    return f"{factor:.2g}-fold" if factor < 99.5 or factor >= 9995 else f"{factor:.0f}-fold"


def _layer(layer: int, depth: int) -> str:
    return {0: "the embedding", depth + 1: "the LM head"}.get(layer, f"layer {layer}")


def _loss(loss: float | None) -> str:
    if loss is None:
        return "none"
    return loss_text(loss) if math.isfinite(loss) else str(loss)


def _final(record: RunRecord) -> float | None:
    return None if record.result is None else record.result.final_val_loss


def nearest(record: RunRecord, others: Iterable[RunRecord]) -> RunRecord | None:
    """Return the run that learned and differs in the fewest keys, or None if there is none or `record` learned.

    Among runs that differ in equally many keys, the one with the closest numbers is chosen.
    """
    if record.verdict is not None and record.verdict.outcome is Outcome.LEARNED:
        return None
    healthy = [other for other in others if other.verdict is not None and other.verdict.outcome is Outcome.LEARNED]
    return min(healthy, key=lambda other: (_distance(record.config, other.config), other.run_id), default=None)


def _differing(one: RunConfig, other: RunConfig) -> list[str]:
    return [name for name in KEYS if getattr(one, name) != getattr(other, name)]


def _distance(one: RunConfig, other: RunConfig) -> tuple[int, float]:
    keys = _differing(one, other)
    return len(keys), sum(_gap(getattr(one, name), getattr(other, name)) for name in keys)


def _gap(one: Value, other: Value) -> float:
    """Return the absolute log ratio of two numbers. Two words are 1 apart."""
    if isinstance(one, str | bool) or isinstance(other, str | bool):
        return 1.0
    return abs(math.log((one + 1e-12) / (other + 1e-12)))


def _difference(config: RunConfig, neighbour: RunRecord, labels: Labels) -> str:
    def key_text(name: str) -> str:
        neighbour_value, own_value = (labels.text(name, getattr(run, name)) for run in (neighbour.config, config))
        return f"{name} {neighbour_value} instead of {own_value}"

    return ", ".join(map(key_text, _differing(config, neighbour.config)))
