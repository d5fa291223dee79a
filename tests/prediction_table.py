"""The table of claims: what the literature predicts at initialization, beside what is measured here.

`python tests/prediction_table.py` prints it as Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from predictions import (
    DEPTHS,
    SEEDS,
    TORCH,
    UNIT_FFN,
    UNIT_MIXER,
    WIDE,
    WIDE_SEEDS,
    WIDTH,
    before_norms,
    first_q_gradients,
    fit_of_line,
    geometric,
    largest_output,
    last_w2_gradients,
    log2_growth,
    mean_squares,
    rms_statistics,
    seen,
    sgd_updates,
    skip_factor,
    slope,
    spread,
    times_root,
    top_cosine,
    top_over_bottom,
    w2_gradients,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the table; `measured` says what is found here."""

    claim: str
    source: str
    expected: str
    measured: Callable[[], str]


def _row(values: Iterable[float], digits: int = 2) -> str:
    return ", ".join(f"{value:.{digits}g}" for value in values)


def _range(values: Iterable[float], digits: int = 2) -> str:
    values = sorted(values)
    return f"{values[0]:.{digits}g} to {values[-1]:.{digits}g}"


def _tops(position: str, **keys: Any) -> list[float]:
    return [mean_squares(position, 40, seed, **keys)[-1] for seed in SEEDS]


def _straightness(position: str) -> list[float]:
    return [fit_of_line(mean_squares(position, 40, seed))[1] for seed in SEEDS]


def _wide(position: str) -> list[float]:
    return [top_over_bottom(position, seed, **WIDE) for seed in WIDE_SEEDS]


def _narrow() -> list[float]:
    return [top_over_bottom("post", seed) for seed in NARROW_SEEDS]


def _cosines(position: str) -> list[float]:
    return [float(np.mean([top_cosine(position, depth, seed) for seed in SEEDS])) for depth in DEPTHS]


NARROW_SEEDS = range(12)
XIONG, DEEPNET, NOCI = "2002.04745", "2203.00555", "2206.03126"
CLAIMS = (
    Claim(
        "Pre: the stream's mean square grows linearly",
        f"{XIONG}, Lemma 2",
        "L = 40: 18.8 to 58.8 (h = 2d)",
        lambda: f"{np.mean(_tops('pre')):.1f}; R² ≥ {min(_straightness('pre')):.3f}",
    ),
    Claim(
        "Post: it is 1 after each norm, 3/2 before an FFN's",
        f"{XIONG}, Lemma 2",
        "1; 1.5 (h = d)",
        lambda: f"{np.mean(_tops('post')):.3f}; {np.mean([before_norms('ffn', s, hidden=WIDTH) for s in SEEDS]):.3f}",
    ),
    Claim(
        "Pre: gradient of the last W2 falls as 1/√L",
        f"{XIONG}, Theorem 1, Fig. 3d",
        "times √L constant",
        lambda: _row(times_root(last_w2_gradients("pre"))),
    ),
    Claim(
        "Post: it does not depend on L",
        f"{XIONG}, Theorem 1, Fig. 3c",
        "constant",
        lambda: _row(last_w2_gradients("post")),
    ),
    Claim(
        "Post: W2's gradient rises with the layer",
        f"{XIONG}, Fig. 3a",
        "above 1, L = 20",
        lambda: (
            f"{geometric(_wide('post')):.2g} at width 128, seeds {_range(_wide('post'))}; "
            f"{geometric(_narrow()):.2g} at width 64, seeds {_range(_narrow())}"
        ),
    ),
    Claim(
        "Pre: it is flat",
        f"{XIONG}, Fig. 3b",
        "1, L = 20",
        lambda: f"falls: {_range(top_over_bottom('pre', s) for s in SEEDS)} (and so says {DEEPNET}, section 5)",
    ),
    Claim(
        "Post: each norm shrinks the skip path where branches have variance 1",
        f"{XIONG}, Lemma 3",
        "0.7071",
        lambda: f"{skip_factor('mixer', **UNIT_MIXER):.4f} mixer, {skip_factor('ffn', **UNIT_FFN):.4f} FFN",
    ),
    Claim(
        "and hardly does with torch's default initial weights",
        "closed form",
        "0.866 mixer, 0.972 FFN",
        lambda: f"{skip_factor('mixer', **TORCH):.3f} mixer, {skip_factor('ffn', **TORCH):.3f} FFN",
    ),
    Claim(
        "Post: tokens become one (cosine at the top)", f"{NOCI}, abstract", "to 1", lambda: _row(_cosines("post"), 4)
    ),
    Claim(
        "and the first layer's queries get no gradient",
        f"{NOCI}, abstract",
        "to 0",
        lambda: _row(first_q_gradients("post")),
    ),
    Claim(
        "Branches over √(2L), and DeepNorm, prevent both",
        f"{NOCI}, abstract",
        "cosine far from 1 at every L",
        lambda: f"{_row(_cosines('residual_scaled'))}; DeepNorm {_row(_cosines('deepnorm'))}",
    ),
    Claim(
        "DeepNorm: one SGD step changes the logits alike at every L",
        f"{DEEPNET}, Theorem 4.2",
        "power of L: 0; Post the most",
        lambda: ", ".join(f"{name} {slope(sgd_updates(name)):.2f}" for name in ("deepnorm", "pre", "post")),
    ),
    Claim(
        "DeepNorm: W2's gradients are equal over layers",
        f"{DEEPNET}, section 4.3 (derived)",
        "max/min 1",
        lambda: f"{max(spread(w2_gradients('deepnorm', 40, s)) for s in SEEDS):.2f} at most, L = 40",
    ),
    Claim(
        "Sandwich (Peri-LN): mean square is 1 + 2l",
        "2502.02732, eq. 4",
        "L = 40: 81",
        lambda: f"{np.mean(_tops('sandwich')):.1f}; seeds {_range(_tops('sandwich'), 3)}",
    ),
    Claim(
        "LNS: it grows slower than L²",
        "2502.05795, Lemma 4.1",
        "power of L below 2",
        lambda: (
            f"{slope((np.mean([mean_squares('lns', n, s)[-1] for s in SEEDS]) for n in (4, 40)), (4, 40)):.2f}; "
            f"{np.mean(_tops('lns')):.1f} at L = 40"
        ),
    ),
    Claim(
        "RMSNorm: mean and std of its output for N(0.5, 1)",
        "closed form",
        "0.4472, 0.8944",
        lambda: _row(rms_statistics(0.5, 1.0), 4),
    ),
    Claim(
        "Largest output of RMSNorm and LayerNorm, d = 64",
        "closed form: √d, √(d - 1)",
        "8, 7.937",
        lambda: f"{largest_output('rms'):.4g}, {largest_output('ln'):.4g}",
    ),
    Claim(
        "No norm, Xavier: mean square doubles per sublayer",
        "closed form: attention 2, FFN 13/9",
        "1.53 doublings a layer",
        lambda: f"{_range((log2_growth(20, s) for s in SEEDS), 3)}",
    ),
    Claim(
        "and at L = 40 the first gradients are not finite",
        "closed form: float32 ends at 3e38",
        "NaN or inf",
        lambda: _row(seen("pre", 40, s, norm="none")["fc2", "grad_norm", 1] for s in SEEDS),
    ),
)


def table() -> str:
    """Every claim beside what is measured, as Markdown; series run over DEPTHS."""
    lines = ["| claim | source | expected | measured here |", "|---|---|---|---|"]
    lines += [f"| {line.claim} | {line.source} | {line.expected} | {line.measured()} |" for line in CLAIMS]
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(table())
