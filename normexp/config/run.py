"""RunConfig: the complete description of one training, and the identity that follows from it.

The key table is the list of its fields: each key is declared here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from normexp.config.conditions import (
    ADAM,
    ATTENTION,
    BLOCKS,
    DYT,
    EPS,
    NORM_DTYPE,
    POST_SHARE,
    attends,
    block_norm,
    has_blocks,
    keys_of_rows,
    needs_final_norm,
)
from normexp.config.keys import Key
from normexp.errors import UserError
from normexp.schemes.network_config import Value
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES, first_like

MIXERS = ("attention", "mean", "linear")
TASKS = ("markov", "lookups")
QK_NORMS = ("none", "rms", "ln", "full", "l2")
DTYPES = ("float32", "bfloat16", "float16")
MAX_COUNT = 10**9
"""Largest value of a key that counts something."""
MAX_TABLE = 2**24
"""Largest number of probabilities, vocab^(order + 1), in a source's table."""


class ConfigError(UserError, ValueError):
    """Values that a run cannot have, one complaint each."""


def _key(default: Value, help: str, **rest: Any) -> Any:
    rest.setdefault("neutral", default)
    if type(default) is int:
        rest.setdefault("high", MAX_COUNT)
    choices = rest.pop("choices", None)
    if isinstance(choices, tuple):
        rest["choices"] = lambda: choices
    elif choices is not None:
        rest["choices"] = choices
    key = Key(kind=type(default), default=default, help=help, **rest)
    return dataclasses.field(default=default, metadata={"key": key})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One training, seed included. `auto` is resolved when it is made. Raises ConfigError, all faults at once."""

    depth: int = _key(20, "number of blocks", low=0, high=10_000, interacting=True)
    norm: str = _key(
        "ln",
        "the norm at every place where the scheme puts one",
        choices=lambda: (*NORMS, "none"),
        interacting=True,
        extensible=True,
        matters=has_blocks,
        matters_when="the scheme puts one somewhere",
    )
    position: str = _key(
        "pre",
        "the scheme: where norms stand and how branches are scaled",
        choices=lambda: tuple(SCHEMES),
        interacting=True,
        extensible=True,
        **BLOCKS,
    )
    post_share: float = _key(
        0.25, "share of the layers, from the first, that are Post", low=0, high=1, interacting=True, **POST_SHARE
    )
    residual: bool = _key(True, "add the skip path to each branch", interacting=True, **BLOCKS)
    final_norm: str = _key(
        "auto",
        "the norm before the head; auto: as the scheme needs, none without a norm",
        neutral="ln",
        choices=lambda: ("auto", *NORMS, "none"),
        interacting=True,
        extensible=True,
    )
    mixer: str = _key(
        "attention",
        "how tokens mix: causal attention, causal running mean then a matrix, or a matrix per token",
        choices=MIXERS,
        interacting=True,
        **BLOCKS,
    )
    qk_norm: str = _key(
        "none",
        "norm on queries and keys: rms or ln per head, with one gain for all heads; full: rms over all heads together; "
        "l2: unit length per head, logits times a learned scale",
        choices=QK_NORMS,
        interacting=True,
        **ATTENTION,
    )
    heads: int = _key(4, "attention heads; divides width", low=1, interacting=True, **ATTENTION)
    width: int = _key(64, "features of the stream", low=1, interacting=True)
    hidden: int = _key(128, "features inside the FFN", low=1, **BLOCKS)
    vocab: int = _key(64, "number of tokens", low=2, interacting=True)
    seq_len: int = _key(16, "tokens that the network sees", low=1, interacting=True)
    activation: str = _key("gelu", "of the FFN", choices=("gelu", "relu"), **BLOCKS)
    init: str = _key(
        "xavier",
        "initial weights of the blocks' matrices",
        choices=("xavier", "xavier_split", "torch", "unit", "small"),
        **BLOCKS,
    )
    init_gain: float = _key(1.0, "factor on the initial weights of the blocks' matrices", low=0, **BLOCKS)
    pos_embed: str = _key(
        "auto",
        "position embedding; auto: learned, none with mixer: linear",
        neutral="learned",
        choices=("auto", "learned", "none"),
        interacting=True,
    )
    eps: float = _key(1e-5, "added to the variance or mean square in every norm", low=0, **EPS)
    dyt_alpha: float = _key(0.5, "start of DyT's learned factor inside the tanh", low=0, **DYT)
    task: str = _key(
        "markov",
        "the source of tokens; markov: each token of context counts by itself, lookups: through a chain of tables",
        choices=TASKS,
    )
    order: int = _key(2, "tokens of context that the source depends on; below seq_len", low=1, interacting=True)
    sharpness: float = _key(4.0, "scale of the source's logits", low=0, low_open=True)
    task_seed: int = _key(0, "seed of the source and its validation set", low=0, high=2**63 - 1)
    label_noise: float = _key(0.0, "share of targets replaced by uniform ones", low=0, high=1, high_open=True)
    optimizer: str = _key(
        "adam", "the optimizer; sgd is without momentum", choices=("adam", "adamw", "sgd"), interacting=True
    )
    lr: float = _key(1e-3, "peak learning rate", low=0, low_open=True, high=1e30)
    warmup: int = _key(0, "updates of warm-up, lr * min(1, t / warmup) at update t; 1 is none", low=0, synonyms={1: 0})
    schedule: str = _key(
        "constant",
        "what follows the warm-up: cosine to 0 at the end, or inverse_sqrt: times sqrt(w / t), w the warm-up or 1",
        choices=("constant", "cosine", "inverse_sqrt"),
    )
    beta1: float = _key(0.9, "decay of Adam's first moment", low=0, high=1, high_open=True, **ADAM)
    beta2: float = _key(0.999, "decay of Adam's second moment", low=0, high=1, high_open=True, **ADAM)
    weight_decay: float = _key(0.0, "never on norm gains or biases", low=0)
    clip: float = _key(0.0, "largest total gradient norm; 0 is off", low=0)
    batch: int = _key(32, "sequences in a training batch", low=1)
    steps: int = _key(3000, "updates", low=1)
    eval_every: int = _key(500, "updates between evaluations; also at step 0 and at the end", low=1)
    dtype: str = _key(
        "float32",
        "of activations and of the weights' cast copy; weights, gradients and optimizer state stay float32",
        choices=DTYPES,
        interacting=True,
    )
    norm_dtype: str = _key(
        "float32",
        "of what norms compute in 16 bits: float32, or same: each operation rounds, as eps does",
        choices=("float32", "same"),
        **NORM_DTYPE,
    )
    seed: int = _key(0, "seed of initial weights and of training batches", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        faults: dict[str, str] = {}
        for name, key in KEYS.items():
            try:
                object.__setattr__(self, name, key.check(getattr(self, name)))
            except ValueError as fault:
                faults[name] = f"{name}: {fault}"
        if not faults:
            self._resolve()
        told = [*faults.values(), *self._clashes(faults)]
        if told:
            raise ConfigError(*told)

    def _resolve(self) -> None:
        if self.final_norm == "auto":
            object.__setattr__(self, "final_norm", self.norm if needs_final_norm(self) else "none")
        if self.pos_embed == "auto":
            object.__setattr__(self, "pos_embed", "none" if self.mixer == "linear" else "learned")

    def _clashes(self, wrong: Container[str]) -> Iterator[str]:
        """Keys that do not go together, each of them right by itself."""

        def right(*names: str) -> bool:
            return not any(name in wrong for name in names)

        if right("depth", "mixer", "width", "heads") and attends(self) and self.width % self.heads:
            yield f"heads: {self.heads} does not divide width {self.width}"
        if right("order", "seq_len") and self.order >= self.seq_len:
            yield f"order: {self.order} is not below seq_len {self.seq_len}"
        if right("order", "vocab") and self.vocab ** min(self.order + 1, 25) > MAX_TABLE:
            size = f"{self.vocab}^{self.order + 1}"
            yield f"order: the source has {size} probabilities, more than {MAX_TABLE}: lower order or vocab"

    def canonical(self) -> RunConfig:
        """The same training with every key that does not matter at its neutral value."""
        run = self._in_first_words()
        mattering = run.mattering()
        values: dict[str, Any] = {
            name: key.canonical(getattr(run, name), name in mattering) for name, key in KEYS.items()
        }
        return self if values == self.to_dict() else RunConfig(**values)

    def mattering(self) -> frozenset[str]:
        """The keys that change the numbers: by the table, or because a row in use reads them."""
        return keys_of_rows(self) | {name for name, key in KEYS.items() if key.matters(self)}

    def _in_first_words(self) -> RunConfig:
        """The same blocks as the first scheme of the table that makes them, with norm none where no door is open."""
        if self.depth == 0:
            return self
        norm = block_norm(self)
        bare = self if norm == self.norm else dataclasses.replace(self, norm=norm)
        position = first_like(bare)
        return bare if position == bare.position else dataclasses.replace(bare, position=position)

    def identity(self) -> dict[str, Value]:
        """What the run's id is made of: canonical keys that differ from their neutral value, and `plugins`, if any."""
        same = self.canonical()
        given = {name: value for name, value in sorted(same.to_dict().items()) if value != KEYS[name].neutral}
        plugins = same.plugins()
        return given | ({"plugins": " ".join(plugins)} if plugins else {})

    def plugins(self) -> list[str]:
        """The origins of the rows from plugins that the run uses."""
        origins = {NORMS.origin(name) for name in (self.norm, self.final_norm)} | {SCHEMES.origin(self.position)}
        return sorted(origins - {""})

    @property
    def run_id(self) -> str:
        """A readable slug, and 8 hex digits of a hash over `identity`."""
        return _run_id(self, *self.plugins())

    def to_dict(self) -> dict[str, Value]:
        """Every key and its value, in the order of the table."""
        return {name: getattr(self, name) for name in KEYS}


KEYS: Mapping[str, Key] = {field.name: field.metadata["key"] for field in dataclasses.fields(RunConfig)}
"""The key table, in order."""
INTERACTING = tuple(name for name, key in KEYS.items() if key.interacting)
"""Keys on which the meaning of others depends."""


@functools.lru_cache(maxsize=2**16)
def _run_id(run: RunConfig, *plugins: str) -> str:
    same = run.canonical()
    text = json.dumps(same.identity(), sort_keys=True, allow_nan=False)
    slug = f"d{same.depth}-{same.norm}-{same.position}-{same.mixer}-lr{same.lr:.3g}-w{same.warmup}-s{same.seed}"
    return f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class UnknownRow(ValueError):
    """A stored config names a norm or scheme that no table has."""


def config_from(stored: Mapping[str, Any]) -> RunConfig:
    """A stored config; keys younger than it take their neutral value. Raises ValueError for bad keys or values."""
    unknown = sorted(set(stored) - set(KEYS))
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}: written by a newer normexp?")
    values: dict[str, Value] = {name: stored.get(name, key.neutral) for name, key in KEYS.items()}
    for name, table in (("norm", NORMS), ("final_norm", NORMS), ("position", SCHEMES)):
        if isinstance(values[name], str) and values[name] not in (*table, "none", "auto"):
            raise UnknownRow(f"{name} {values[name]!r} is of a plugin: give its file with --plugin FILE.py")
    garbled = any(isinstance(value, list | dict) for value in values.values())
    return (_config.__wrapped__ if garbled else _config)(*values.values())


@functools.lru_cache(maxsize=2**15, typed=True)
def _config(*values: Value) -> RunConfig:
    """Of the values of all keys, in order: a command meets a stored config in the manifest, and in the record again."""
    return RunConfig(**dict(zip(KEYS, values, strict=True)))  # type: ignore[arg-type]
