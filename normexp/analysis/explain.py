"""Explain one run: its config, its outcome and the rule behind it, and how the nearest run that learned differs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from normexp.config.labels import Labels, loss_text
from normexp.config.run import KEYS, RunConfig
from normexp.records.record import Outcome, RunRecord
from normexp.schemes.network_config import Value


def story(record: RunRecord, others: Iterable[RunRecord]) -> list[str]:
    """Return the explanation of a run, one line per entry. The nearest run that learned is searched among `others`."""
    candidates = list(others)
    configs = (RunConfig(), record.config, *(other.config for other in candidates))
    labels = Labels.among(config.to_dict() for config in configs)
    lines = [record.run_id, f"  config: {_config(record.config, labels)}", *(f"  {fact}" for fact in facts(record))]
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
