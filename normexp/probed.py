"""One network as it was measured, and the words for what can be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from normexp.keys import Value
from normexp.record import SignalRow
from normexp.run import RunConfig

QUANTITIES: Mapping[str, str] = MappingProxyType(
    {
        "rms": "RMS of {}",
        "mean_square": "Mean square of {}",
        "token_cosine": "Mean cosine between tokens of {}",
        "grad_norm": "Gradient norm of {}",
        "update": "RMS of one step's change of {}",
        "relative_update": "Relative change of {} by one step",
        "sgd_update": "RMS of the change of {} by SGD 1e-2 on matrices",
        "attention_entropy": "Attention entropy (nats)",
        "max_logit": "Largest attention logit",
        "leak": "Change of earlier logits by later tokens",
        "train_mode_loss": "Loss with batch statistics (nats)",
        "eval_mode_loss": "Loss with running statistics (nats)",
    }
)
"""Quantities of `normexp.training.inspection`, and what they are called; {} stands for the part."""

BACKWARD = frozenset({"grad_norm"})
"""Quantities that go from the last layer to the first: where one of them breaks first is the highest layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A network and one seed: `network` is its name beside the others, `asked` its axes as they were asked for."""

    network: str
    config: RunConfig
    rows: Sequence[SignalRow]
    asked: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
