"""A calculation for a claims file: `normexp claims examples/jacobian.yaml --plugin examples/jacobian.py`."""

from collections.abc import Sequence

import torch
from torch.nn.functional import layer_norm

from normexp.claims.claim import Finding
from normexp.texts.figures import one_seed, same

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
    measured = f"{ratio:.4f}"
    sentence = f"ratio of the gradients {measured}; {FEATURES} features, seed {seed}"
    return one_seed(same(ratio, figures[0]), measured, sentence)


CALCULATIONS = {"gradient_shrinks": gradient_shrinks}
