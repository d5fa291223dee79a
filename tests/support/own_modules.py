"""A plugin with a scheme, and with norms that have no node or kernel, or other parameters than those expect."""

OWN = """
import torch
from torch import Tensor, nn
from normexp.norms import Norm
from normexp.schemes import Scale, Scheme, everywhere


class Peak(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fixed = nn.Parameter(torch.full((width,), 0.5), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.fixed * self.weight * x / (1 + x.square().amax(-1, keepdim=True))


def fixed_gain(width, run):
    norm = nn.LayerNorm(width)
    norm.weight.requires_grad_(False)
    return norm


class Deaf(nn.Module):
    def forward(self, x):
        return x.detach().tanh()


MAKERS = {
    "deaf": lambda width, run: Deaf(),
    "peak": lambda width, run: Peak(width),
    "bare": lambda width, run: nn.LayerNorm(width, elementwise_affine=False),
    "biasless": lambda width, run: nn.LayerNorm(width, bias=False),
    "fixed_gain": fixed_gain,
    "torchs": lambda width, run: nn.RMSNorm(width, eps=run.eps),
    "squash": lambda width, run: nn.GELU("tanh"),
    "nothing": lambda width, run: nn.Identity(),
}
NORMS = {name: Norm(make=make, help="own", source="here") for name, make in MAKERS.items()}
SCHEMES = {
    "own": Scheme(
        doors=everywhere("before", "qkv", "within", "output", "after"),
        final_norm=True,
        help="every door and every scale",
        source="here",
        skip=Scale(lambda site: 0.5, learned=True),
        branch_in=Scale(lambda site: 0.7, learned=True, shared=True),
        branch_out=Scale(lambda site: 0.9),
        bottom=Scale(lambda site: 0.3, learned=True),
    )
}
"""
OWN_NORMS = ("deaf", "peak", "bare", "biasless", "fixed_gain", "torchs", "squash", "nothing")
