"""Settings that pass key by key but cannot work together: those that no run survives, and those that cannot learn.

Both are tables of rows. A stored run is never refused: the tables are asked before something runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from normexp.config.conditions import attends, block_norm, norms_in_use
from normexp.config.keys import as_typed
from normexp.config.run import RunConfig
from normexp.errors import UserError, at_most
from normexp.schemes.schemes import SCHEMES

FLOAT32_MAX = 3.4028234663852886e38
FLOAT32_TINY = 1e-45
"""Below the smallest positive float32."""
DWARFING_EPS = 1e6
"""From this eps on, a norm makes its output less than a thousandth of its input, whose mean square is of order 1."""
NO_STEP = 1e-10
"""An Adam step of this learning rate, or of gradients clipped to this norm, rounds away in weights of order 0.1."""
MOST_TOLD = 20
"""Refusals that are told; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A row: `when` a run reaches the limit, the keys whose values bring it there, and what follows."""

    keys: tuple[str, ...]
    when: Callable[[RunConfig], bool]
    why: str

    def told(self, run: RunConfig) -> str:
        """`norm bn, eps 0.0: why`."""
        return f"{', '.join(f'{name} {as_typed(getattr(run, name))}' for name in self.keys)}: {self.why}"


def _rounded(run: RunConfig) -> bool:
    """Whether norms follow their formulas in 16 bits, in place of torch's kernels."""
    return run.dtype != "float32" and run.norm_dtype == "same"


def _overflows(name: str) -> Callable[[RunConfig], bool]:
    return lambda run: getattr(run, name) > FLOAT32_MAX and name in run.mattering()


def _starts_at_zero(run: RunConfig) -> bool:
    """Whether no branch adds anything at first, since its learned scale starts at 0."""
    scale = SCHEMES[run.position].branch_out
    return run.depth > 0 and scale.learned and scale.value(next(SCHEMES[run.position].sites(run))) == 0


def _no_matrices(run: RunConfig) -> bool:
    """Whether the blocks' matrices start at 0, and no bias drives them."""
    return run.depth > 0 and run.init_gain < FLOAT32_TINY and run.init != "torch"


REFUSED: tuple[Limit, ...] = (
    Limit(
        keys=("norm", "final_norm", "eps"),
        when=lambda run: run.eps == 0 and "bn" in norms_in_use(run) and not _rounded(run),
        why="torch's BatchNorm needs an eps above 0",
    ),
    *(
        Limit(keys=(name,), when=_overflows(name), why=f"is infinite in float32: write at most {FLOAT32_MAX:.1e}")
        for name in ("eps", "dyt_alpha", "init_gain", "weight_decay")
    ),
)
"""What ends every run as failed, or lets none of its numbers be finite."""

OF_FEW_FEATURES: Mapping[tuple[str, int], str] = {
    ("ln", 1): "LayerNorm of one feature is constant: what follows it does not depend on the input",
    ("ln", 2): "LayerNorm of two features keeps only which of them is larger",
    ("rms", 1): "RMSNorm of one feature keeps only its sign",
    ("scale", 1): "ScaleNorm of one feature keeps only its sign",
    ("l2", 1): "normalizing one feature to unit length keeps only its sign",
}
"""What a norm leaves of so few features."""

Site = tuple[tuple[str, ...], Callable[[RunConfig], str], Callable[[RunConfig], int]]


def _norm_within(run: RunConfig) -> str:
    scheme = SCHEMES[run.position]
    inside = block_norm(run) != "none" and any("within" in scheme.open_doors(run, site) for site in scheme.sites(run))
    return run.norm if inside else "none"


NORMALIZED: tuple[Site, ...] = (
    (("final_norm", "width"), lambda run: run.final_norm, lambda run: run.width),
    (("position", "norm", "width"), block_norm, lambda run: run.width),
    (("position", "norm", "hidden"), _norm_within, lambda run: run.hidden),
    (("qk_norm", "width", "heads"), lambda run: run.qk_norm * attends(run), lambda run: run.width // run.heads),
)
"""Where norms stand: the keys that say so, which norm it is, and of how many features."""


def _few(site: Site, norm: str, features: int) -> Callable[[RunConfig], bool]:
    _, norm_of, features_of = site
    return lambda run: features_of(run) == features and norm_of(run) == norm


WARNED: tuple[Limit, ...] = (
    *(
        Limit(keys=site[0], when=_few(site, *few), why=why)
        for site, (few, why) in product(NORMALIZED, OF_FEW_FEATURES.items())
    ),
    Limit(
        keys=("eps",),
        when=lambda run: run.eps >= DWARFING_EPS and "eps" in run.mattering(),
        why="eps exceeds any mean square by far: the output of every norm is close to 0",
    ),
    Limit(
        keys=("position", "residual", "init"),
        when=lambda run: _starts_at_zero(run) and not run.residual and run.init != "torch",
        why="without the skip path, every block gives 0 and gets no gradient: the output stays constant",
    ),
    Limit(
        keys=("residual", "init_gain"),
        when=lambda run: _no_matrices(run) and not run.residual,
        why="without the skip path and with matrices of 0, the output does not depend on the input",
    ),
    Limit(
        keys=("init", "init_gain"),
        when=lambda run: _no_matrices(run) and run.residual,
        why="matrices that start at 0 in a row get no gradient: the FFN, and attention, stay at 0",
    ),
    Limit(
        keys=("optimizer", "lr"),
        when=lambda run: run.lr < (FLOAT32_TINY if run.optimizer == "sgd" else NO_STEP),
        why="updates are too small to change float32 weights",
    ),
    Limit(
        keys=("clip",),
        when=lambda run: 0 < run.clip < NO_STEP,
        why="gradients clipped to this norm are too small to change float32 weights",
    ),
)
"""What trains, but learns nothing from its input, or not what the other keys ask for."""


def refusals(runs: Iterable[RunConfig]) -> list[str]:
    """Return why runs cannot be made, each reason once."""
    return [*_reached(REFUSED, runs)]


def warnings(runs: Iterable[RunConfig]) -> list[str]:
    """Return why runs can learn little or nothing, each reason once, with how many runs it concerns."""
    return [f"{text} ({count} of the runs)" if count > 1 else text for text, count in _reached(WARNED, runs).items()]


def refuse(runs: Iterable[RunConfig], origin: str = "") -> None:
    """Raise UserError where a run cannot be made."""
    if found := refusals(runs):
        raise UserError(*(f"{origin}: {text}" if origin else text for text in at_most(found, MOST_TOLD)))


def _reached(table: Iterable[Limit], runs: Iterable[RunConfig]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for run, limit in product(runs, table):
        if limit.when(run):
            counts[limit.told(run)] = counts.get(limit.told(run), 0) + 1
    return counts


def least_bytes(run: RunConfig) -> int:
    """Return a lower bound of the memory that a run needs: parameters, a step's activations, and its batches."""
    embeddings = run.vocab * 2 + (run.seq_len if run.pos_embed == "learned" else 0)
    mixer = run.width * (4 if attends(run) else 1)
    parameters = run.width * (embeddings + run.depth * (mixer + 2 * run.hidden))
    states = 2 if run.optimizer == "sgd" else 4  # value and gradient, and the two moments of Adam
    per_token = run.depth * (2 * run.width + run.hidden) * (4 if run.dtype == "float32" else 2) + 4 * run.vocab
    drawn = 16 * BATCHES_A_BLOCK * (run.seq_len + 1)  # random numbers and tokens, 8 bytes each
    return 4 * states * parameters + run.batch * (run.seq_len * per_token + drawn)


BATCHES_A_BLOCK = 64
