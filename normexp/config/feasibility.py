"""Configurations that pass each key's check but cannot run, or cannot learn.

Both kinds are tables of rows. They are checked before a run starts; stored runs are never rejected.
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
"""Smaller than the smallest positive float32."""
LARGE_EPS = 1e6
"""At this eps and above, a norm shrinks its input, whose mean square is about 1, by a factor of more than 1000."""
TINY_STEP = 1e-10
"""Adam updates with this learning rate, or with gradients clipped to this magnitude, vanish in weights near 0.1."""
BATCHES_PER_BLOCK = 64
"""Training batches that are drawn at a time."""
MAX_REASONS = 20
"""Number of refusals shown; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A row: the condition `when`, the keys that cause it, and the reason to show."""

    keys: tuple[str, ...]
    when: Callable[[RunConfig], bool]
    why: str

    def message(self, run: RunConfig) -> str:
        """Return the keys with their values and the reason, such as `norm bn, eps 0.0: why`."""
        return f"{', '.join(f'{name} {as_typed(getattr(run, name))}' for name in self.keys)}: {self.why}"


def _rounded(run: RunConfig) -> bool:
    """Return whether norms compute in 16 bits by formula instead of using torch's kernels."""
    return run.dtype != "float32" and run.norm_dtype == "same"


def _overflows(name: str) -> Callable[[RunConfig], bool]:
    return lambda run: getattr(run, name) > FLOAT32_MAX and name in run.mattering()


def _starts_at_zero(run: RunConfig) -> bool:
    """Return whether every branch starts at 0, because its learned scale does."""
    scale = SCHEMES[run.position].branch_out
    return run.depth > 0 and scale.learned and scale.value(next(SCHEMES[run.position].sites(run))) == 0


def _no_matrices(run: RunConfig) -> bool:
    """Return whether the matrices of the blocks start at 0 and no bias replaces them."""
    return run.depth > 0 and run.init_gain < FLOAT32_TINY and run.init != "torch"


REFUSED: tuple[Limit, ...] = (
    Limit(
        keys=("norm", "final_norm", "eps"),
        when=lambda run: run.eps == 0 and "bn" in norms_in_use(run) and not _rounded(run),
        why="torch's BatchNorm requires eps > 0",
    ),
    *(
        Limit(keys=(name,), when=_overflows(name), why=f"is infinite in float32: write at most {FLOAT32_MAX:.1e}")
        for name in ("eps", "dyt_alpha", "init_gain", "weight_decay")
    ),
)
"""Configurations in which every run would fail, or would contain no finite number."""

FEW_FEATURES: Mapping[tuple[str, int], str] = {
    ("ln", 1): "LayerNorm of a single feature is constant, so later layers do not see the input",
    ("ln", 2): "LayerNorm of two features only keeps which of them is larger",
    ("rms", 1): "RMSNorm of a single feature only keeps its sign",
    ("scale", 1): "ScaleNorm of a single feature only keeps its sign",
    ("l2", 1): "L2 normalization of a single feature only keeps its sign",
}
"""How little information each norm preserves with so few features."""

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
"""Norm sites: the keys that define the site, the norm used there, and its number of features."""


def _few(site: Site, norm: str, features: int) -> Callable[[RunConfig], bool]:
    _, norm_of, features_of = site
    return lambda run: features_of(run) == features and norm_of(run) == norm


WARNED: tuple[Limit, ...] = (
    *(
        Limit(keys=site[0], when=_few(site, *few), why=why)
        for site, (few, why) in product(NORMALIZED, FEW_FEATURES.items())
    ),
    Limit(
        keys=("eps",),
        when=lambda run: run.eps >= LARGE_EPS and "eps" in run.mattering(),
        why="eps is far larger than any mean square, so the output of every norm is close to 0",
    ),
    Limit(
        keys=("position", "residual", "init"),
        when=lambda run: _starts_at_zero(run) and not run.residual and run.init != "torch",
        why="without the skip path, every block outputs 0 and gets no gradient, so the output stays constant",
    ),
    Limit(
        keys=("residual", "init_gain"),
        when=lambda run: _no_matrices(run) and not run.residual,
        why="without the skip path and with zero matrices, the output does not depend on the input",
    ),
    Limit(
        keys=("init", "init_gain"),
        when=lambda run: _no_matrices(run) and run.residual,
        why="consecutive zero matrices get no gradient, so the FFN and attention stay at 0",
    ),
    Limit(
        keys=("optimizer", "lr"),
        when=lambda run: run.lr < (FLOAT32_TINY if run.optimizer == "sgd" else TINY_STEP),
        why="updates are too small to change float32 weights",
    ),
    Limit(
        keys=("clip",),
        when=lambda run: 0 < run.clip < TINY_STEP,
        why="gradients clipped to this magnitude are too small to change float32 weights",
    ),
)
"""Configurations that train but cannot learn from their input, or that make other keys useless."""


def refusals(runs: Iterable[RunConfig]) -> list[str]:
    """Return the reasons why the runs cannot work, without repetition."""
    return [*_reached(REFUSED, runs)]


def warnings(runs: Iterable[RunConfig]) -> list[str]:
    """Return the reasons why runs cannot learn much, each with the number of runs that it concerns."""
    return [f"{text} ({count} runs)" if count > 1 else text for text, count in _reached(WARNED, runs).items()]


def refuse(runs: Iterable[RunConfig], origin: str = "") -> None:
    """Raise UserError if a run cannot work."""
    if reasons := refusals(runs):
        raise UserError(*(f"{origin}: {text}" if origin else text for text in at_most(reasons, MAX_REASONS)))


def _reached(table: Iterable[Limit], runs: Iterable[RunConfig]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for run, limit in product(runs, table):
        if limit.when(run):
            counts[limit.message(run)] = counts.get(limit.message(run), 0) + 1
    return counts


def least_bytes(run: RunConfig) -> int:
    """Return a lower bound, in bytes, of the memory of a run: parameters, activations of a step, and batches."""
    embeddings = run.vocab * 2 + (run.seq_len if run.pos_embed == "learned" else 0)
    mixer = run.width * (4 if attends(run) else 1)
    parameters = run.width * (embeddings + run.depth * (mixer + 2 * run.hidden))
    states = 2 if run.optimizer == "sgd" else 4  # value and gradient, and the two moments of Adam
    per_token = run.depth * (2 * run.width + run.hidden) * (4 if run.dtype == "float32" else 2) + 4 * run.vocab
    drawn = 16 * BATCHES_PER_BLOCK * (run.seq_len + 1)  # random numbers and tokens, 8 bytes each
    return 4 * states * parameters + run.batch * (run.seq_len * per_token + drawn)
