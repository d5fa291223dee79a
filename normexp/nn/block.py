"""A block: two branches, each with the doors and scales that its scheme gives this layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from normexp.nn.branches import MIXERS, FeedForward
from normexp.nn.norms import make_norm
from normexp.run import RunConfig
from normexp.schemes import SCHEMES, Scale, Scheme

BranchFunction = Callable[[RunConfig, nn.Module | None], nn.Module]


class Scaling(nn.Module):
    """A learned scalar factor."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(start))

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.factor * x_btd


class Constant(nn.Module):
    """A fixed factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.factor * x_btd


def _scale(scale: Scale, layer: int, depth: int) -> nn.Module:
    value = scale.value(layer, depth)
    if scale.learned:
        return Scaling(value)
    return nn.Identity() if value == 1.0 else Constant(value)


class Branch(nn.Module):
    """after(skip * x + branch_out * output(f(branch_in * before(x)))); without `residual`, the skip term is absent."""

    def __init__(self, config: RunConfig, scheme: Scheme, layer: int, function: BranchFunction) -> None:
        super().__init__()
        doors = scheme.doors(layer, config.depth)

        def norm(door: str, width: int) -> nn.Module | None:
            return make_norm(config.norm, width, config.eps) if door in doors else None

        inner_width = config.hidden if function is FeedForward else config.width
        self.before = norm("before", config.width) or nn.Identity()
        self.branch_in = _scale(scheme.branch_in, layer, config.depth)
        self.f = function(config, norm("within", inner_width))
        self.output = norm("output", config.width) or nn.Identity()
        self.branch_out = _scale(scheme.branch_out, layer, config.depth)
        self.skip = _scale(scheme.skip, layer, config.depth) if config.residual else None
        self.after = norm("after", config.width) or nn.Identity()

    def forward(self, x_btd: Tensor) -> Tensor:
        branch_btd = self.branch_out(self.output(self.f(self.branch_in(self.before(x_btd)))))
        if self.skip is not None:
            branch_btd = self.skip(x_btd) + branch_btd
        return self.after(branch_btd)  # type: ignore[no-any-return]


class Block(nn.Module):
    """The mixer's branch, then the FFN's: (b, t, d) to (b, t, d)."""

    def __init__(self, config: RunConfig, layer: int) -> None:
        super().__init__()
        scheme = SCHEMES[config.position]
        self.mixer = Branch(config, scheme, layer, MIXERS[config.mixer])
        self.ffn = Branch(config, scheme, layer, FeedForward)

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.ffn(self.mixer(x_btd))  # type: ignore[no-any-return]
