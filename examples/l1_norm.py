"""A plugin with a norm that divides by the mean absolute value and a scheme whose branches fade with depth.

normexp sweep examples/l1_norm.yaml --plugin examples/l1_norm.py
"""

import torch
from torch import Tensor, nn

from normexp.schemes import Norm, Reading, Scale, Scheme, everywhere


class L1Norm(nn.Module):
    """Compute g x / (mean |x| + eps) over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / (x.abs().mean(-1, keepdim=True) + self.eps)


def l1_norm(width: int, run: Reading) -> nn.Module:
    """Return a new norm over `width` features. It may read `run.eps`, and any other key listed in Norm(keys=...)."""
    return L1Norm(width, run.eps)


NORMS = {"l1": Norm(make=l1_norm, help="g x / (mean |x| + eps)", source="this file, 2026")}

SCHEMES = {
    "fading": Scheme(
        doors=everywhere("before"),
        final_norm=True,
        help="x + f(N(x)) / l in layer l",
        source="this file, 2026",
        branch_out=Scale(lambda site: 1 / site.layer),
    )
}
