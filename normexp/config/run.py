"""RunConfig: the complete description of one training run, and the run id derived from it.

The fields of RunConfig are the key table: each config key is declared there and nowhere else.
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

MIXERS = {
    "attention": "causal",
    "mean": "causal running mean, then a matrix",
    "linear": "a matrix on each token",
}
"""Token mixers with their meaning."""
TASKS = {
    "markov": "each context token contributes separately",
    "lookups": "a chain of table lookups",
}
"""Sources of tokens with their meaning."""
QK_NORMS = {
    "none": "",
    "rms": "per head, with one gain for all heads",
    "ln": "the same",
    "full": "rms over all heads together",
    "l2": "unit length per head, with a learned scale on the logits",
}
"""Norms on queries and keys with their meaning."""
DTYPES = ("float32", "bfloat16", "float16")
MAX_COUNT = 10**9
"""Maximum value of a key that is a count."""
MAX_TABLE = 2**24
"""Maximum number of probabilities, vocab^(order + 1), in the table of a source."""


class ConfigError(UserError, ValueError):
    """Invalid values of a run, with one message each."""


def _key(default: Value, help: str, **rest: Any) -> Any:
    rest.setdefault("neutral", default)
    if type(default) is int:
        rest.setdefault("high", MAX_COUNT)
    choices = rest.get("choices")
    if isinstance(choices, tuple | dict):
        rest["choices"] = lambda: tuple(choices)
    key = Key(kind=type(default), default=default, help=help, **rest)
    return dataclasses.field(default=default, metadata={"key": key})


def _meanings(values: Mapping[str, str]) -> str:
    return "; ".join(f"{value}: {meaning}" for value, meaning in values.items() if meaning)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One training run, including its seed. `auto` is resolved on creation. Raises ConfigError with all errors."""

    depth: int = _key(20, "number of blocks", low=0, high=10_000, interacting=True)
    norm: str = _key(
        "ln",
        "norm at every norm site of the scheme",
        choices=lambda: (*NORMS, "none"),
        interacting=True,
        extensible=True,
        matters=has_blocks,
        matters_when="the scheme has a norm site",
    )
    position: str = _key(
        "pre",
        "residual scheme: where norms are placed and how branches are scaled",
        choices=lambda: tuple(SCHEMES),
        interacting=True,
        extensible=True,
        **BLOCKS,
    )
    post_share: float = _key(
        0.25,
        "fraction of the layers, from the first, that are Post",
        low=0,
        high=1,
        interacting=True,
        **POST_SHARE,
        changes_step=False,
    )
    residual: bool = _key(True, "add the skip path to each branch", interacting=True, **BLOCKS)
    final_norm: str = _key(
        "auto",
        "norm before the LM head; auto: `norm` if the scheme needs a final norm, else none",
        neutral="ln",
        choices=lambda: ("auto", *NORMS, "none"),
        interacting=True,
        extensible=True,
    )
    mixer: str = _key(
        "attention",
        f"token mixer. {_meanings(MIXERS)}",
        choices=MIXERS,
        interacting=True,
        **BLOCKS,
    )
    qk_norm: str = _key(
        "none",
        f"norm on queries and keys. {_meanings(QK_NORMS)}",
        choices=QK_NORMS,
        interacting=True,
        **ATTENTION,
    )
    heads: int = _key(4, "attention heads; must divide width", low=1, interacting=True, **ATTENTION)
    width: int = _key(64, "features of the residual stream", low=1, interacting=True)
    hidden: int = _key(128, "features of the FFN's hidden layer", low=1, **BLOCKS)
    vocab: int = _key(64, "vocabulary size", low=2, interacting=True)
    seq_len: int = _key(16, "context length in tokens", low=1, interacting=True)
    activation: str = _key("gelu", "activation of the FFN", choices=("gelu", "relu"), **BLOCKS)
    init: str = _key(
        "xavier",
        "initialization of the weight matrices in the blocks",
        choices=("xavier", "xavier_split", "torch", "unit", "small"),
        **BLOCKS,
        changes_step=False,
    )
    init_gain: float = _key(
        1.0, "factor on the initial weight matrices in the blocks", low=0, **BLOCKS, changes_step=False
    )
    pos_embed: str = _key(
        "auto",
        "position embedding; auto: learned, but none with mixer: linear",
        neutral="learned",
        choices=("auto", "learned", "none"),
        interacting=True,
    )
    eps: float = _key(
        1e-5, "constant added to the variance or mean square in every norm", low=0, **EPS, changes_step=False
    )
    dyt_alpha: float = _key(
        0.5, "initial value of DyT's learned factor inside the tanh", low=0, **DYT, changes_step=False
    )
    task: str = _key(
        "markov",
        f"source of the tokens. {_meanings(TASKS)}",
        choices=TASKS,
    )
    order: int = _key(2, "context tokens that the source depends on; less than seq_len", low=1, interacting=True)
    sharpness: float = _key(4.0, "scale of the source's logits", low=0, low_open=True, changes_step=False)
    task_seed: int = _key(0, "seed of the source and its validation set", low=0, high=2**63 - 1, changes_step=False)
    label_noise: float = _key(
        0.0, "fraction of targets replaced by uniform ones", low=0, high=1, high_open=True, changes_step=False
    )
    optimizer: str = _key("adam", "optimizer; sgd has no momentum", choices=("adam", "adamw", "sgd"), interacting=True)
    lr: float = _key(1e-3, "peak learning rate", low=0, low_open=True, high=1e30, changes_step=False)
    warmup: int = _key(
        0,
        "warm-up updates: lr * min(1, t / warmup) at update t; 0 and 1 mean no warm-up",
        low=0,
        synonyms={1: 0},
        changes_step=False,
    )
    schedule: str = _key(
        "constant",
        "learning rate after the warm-up. cosine: to 0 at the end; inverse_sqrt: times sqrt(max(warmup, 1) / t)",
        choices=("constant", "cosine", "inverse_sqrt"),
        changes_step=False,
    )
    beta1: float = _key(
        0.9, "decay rate of Adam's first moment", low=0, high=1, high_open=True, **ADAM, changes_step=False
    )
    beta2: float = _key(
        0.999, "decay rate of Adam's second moment", low=0, high=1, high_open=True, **ADAM, changes_step=False
    )
    weight_decay: float = _key(0.0, "weight decay; norm gains and biases are exempt", low=0, changes_step=False)
    clip: float = _key(0.0, "maximum magnitude of the total gradient; 0 disables clipping", low=0)
    batch: int = _key(32, "sequences per training batch", low=1)
    steps: int = _key(3000, "training updates", low=1, changes_step=False)
    eval_every: int = _key(
        500, "updates between evaluations; step 0 and the last step are always evaluated", low=1, changes_step=False
    )
    dtype: str = _key(
        "float32",
        "dtype of activations and of a cast copy of the weights; weights, gradients and optimizer state stay float32",
        choices=DTYPES,
        interacting=True,
    )
    norm_dtype: str = _key(
        "float32",
        "dtype inside norms when dtype has 16 bits; same: every operation rounds to dtype, and so does eps",
        choices=("float32", "same"),
        **NORM_DTYPE,
    )
    seed: int = _key(0, "seed of the initial weights and the training batches", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        faults: dict[str, str] = {}
        for name, key in KEYS.items():
            try:
                object.__setattr__(self, name, key.check(getattr(self, name)))
            except ValueError as fault:
                faults[name] = f"{name}: {fault}"
        if not faults:
            self._resolve()
        messages = [*faults.values(), *self._clashes(faults)]
        if messages:
            raise ConfigError(*messages)

    def _resolve(self) -> None:
        if self.final_norm == "auto":
            object.__setattr__(self, "final_norm", self.norm if needs_final_norm(self) else "none")
        if self.pos_embed == "auto":
            object.__setattr__(self, "pos_embed", "none" if self.mixer == "linear" else "learned")

    def _clashes(self, wrong: Container[str]) -> Iterator[str]:
        """Yield a message for each combination of valid values that conflict. `wrong` are the invalid keys."""

        def valid(*names: str) -> bool:
            return not any(name in wrong for name in names)

        if valid("depth", "mixer", "width", "heads") and attends(self) and self.width % self.heads:
            yield f"heads: {self.heads} does not divide width {self.width}"
        if valid("order", "seq_len") and self.order >= self.seq_len:
            yield f"order: {self.order} must be less than seq_len {self.seq_len}"
        if valid("order", "vocab") and self.vocab ** min(self.order + 1, 25) > MAX_TABLE:
            size = f"{self.vocab}^{self.order + 1}"
            yield f"order: the source would have {size} probabilities, more than {MAX_TABLE}: lower order or vocab"

    def canonical(self) -> RunConfig:
        """Return the same training run with every key that has no effect at its neutral value."""
        run = self._with_first_scheme()
        mattering = run.mattering()
        values: dict[str, Any] = {
            name: key.canonical(getattr(run, name), name in mattering) for name, key in KEYS.items()
        }
        return self if values == self.to_dict() else RunConfig(**values)

    def mattering(self) -> frozenset[str]:
        """Return the keys that affect the results, by the table or because a norm or scheme in use reads them."""
        return keys_of_rows(self) | {name for name, key in KEYS.items() if key.matters(self)}

    def _with_first_scheme(self) -> RunConfig:
        """Return the same network under the first scheme of the table that builds it; norm is none without a site."""
        if self.depth == 0:
            return self
        norm = block_norm(self)
        bare = self if norm == self.norm else dataclasses.replace(self, norm=norm)
        position = first_like(bare)
        return bare if position == bare.position else dataclasses.replace(bare, position=position)

    def identity(self) -> dict[str, Value]:
        """Return what the run id hashes: the canonical keys with non-neutral values, and `plugins` if any are used."""
        same = self.canonical()
        values = {name: value for name, value in sorted(same.to_dict().items()) if value != KEYS[name].neutral}
        plugins = same.plugins()
        return values | ({"plugins": " ".join(plugins)} if plugins else {})

    def plugins(self) -> list[str]:
        """Return the digests of the plugins whose rows the run uses."""
        origins = {NORMS.origin(name) for name in (self.norm, self.final_norm)} | {SCHEMES.origin(self.position)}
        return sorted(origins - {""})

    @property
    def run_id(self) -> str:
        """The run id: a readable slug and 8 hex digits of a hash over `identity`."""
        return _run_id(self, *self.plugins())

    def to_dict(self) -> dict[str, Value]:
        """Return every key and its value, in the order of the table."""
        return {name: getattr(self, name) for name in KEYS}


KEYS: Mapping[str, Key] = {field.name: field.metadata["key"] for field in dataclasses.fields(RunConfig)}
"""The key table, in order of declaration."""
INTERACTING = tuple(name for name, key in KEYS.items() if key.interacting)
"""Keys that affect the meaning of other keys."""


@functools.lru_cache(maxsize=2**16)
def _run_id(run: RunConfig, *plugins: str) -> str:
    same = run.canonical()
    text = json.dumps(same.identity(), sort_keys=True, allow_nan=False)
    slug = f"d{same.depth}-{same.norm}-{same.position}-{same.mixer}-lr{same.lr:.3g}-w{same.warmup}-s{same.seed}"
    return f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class UnknownRow(ValueError):
    """A stored config names an unknown norm or scheme."""


def config_from(stored: Mapping[str, Any]) -> RunConfig:
    """Return a stored config. Keys that it lacks have their neutral value. Raises ValueError for bad keys or values."""
    unknown = sorted(set(stored) - set(KEYS))
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}: written by a newer normexp?")
    values: dict[str, Value] = {name: stored.get(name, key.neutral) for name, key in KEYS.items()}
    for name, table in (("norm", NORMS), ("final_norm", NORMS), ("position", SCHEMES)):
        if isinstance(values[name], str) and values[name] not in (*table, "none", "auto"):
            raise UnknownRow(f"{name} {values[name]!r} is from a plugin: give its file with --plugin FILE.py")
    unhashable = any(isinstance(value, list | dict) for value in values.values())
    return (_config.__wrapped__ if unhashable else _config)(*values.values())


@functools.lru_cache(maxsize=2**15, typed=True)
def _config(*values: Value) -> RunConfig:
    """Return the config with these values of all keys. Cached: commands read each config in manifest and record."""
    return RunConfig(**dict(zip(KEYS, values, strict=True)))  # type: ignore[arg-type]
