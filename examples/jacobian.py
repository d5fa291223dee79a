"""A calculation for a claims file: `normexp claims examples/jacobian.yaml --plugin examples/jacobian.py`."""

from collections.abc import Sequence

import torch
from torch.nn.functional import layer_norm

from normexp.claims.claim import Finding

FEATURES = 64


def gradient_shrinks(seed: int, figures: Sequence[str]) -> Finding:
    """the gradient through LayerNorm is multiplied by this figure if the input is ten times as large"""
    random = torch.Generator().manual_seed(seed)
    x, upstream = torch.randn(2, FEATURES, generator=random, dtype=torch.float64)
    magnitudes = []
    for factor in (1.0, 10.0):
        scaled = (factor * x).requires_grad_()
        layer_norm(scaled, (FEATURES,), eps=1e-12).backward(upstream)
        magnitudes.append(float(torch.linalg.vector_norm(scaled.grad)))
    ratio = magnitudes[1] / magnitudes[0]
    return Finding(
        holds=abs(ratio - float(figures[0])) < 1e-6,
        measured=f"{ratio:.4f}",
        sentence=f"ratio of the gradients {ratio:.4f}; {FEATURES} features, seed {seed}",
    )


CALCULATIONS = {"gradient_shrinks": gradient_shrinks}
