"""A block: two branches, each with the norm sites and scales that its scheme gives this layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.branches import MIXERS, FeedForward, MakeNorm
from normexp.model.norms import make_norm
from normexp.schemes.schemes import SCHEMES, Scale, Scheme, Site

BranchFunction = Callable[[RunConfig, MakeNorm], nn.Module]


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


def _scale(scale: Scale, site: Site) -> nn.Module:
    value = scale.value(site)
    if scale.learned:
        return Scaling(value)
    return nn.Identity() if value == 1.0 else Constant(value)


class Branch(nn.Module):
    """One branch, by the formula in `schemes.schemes`. Without `residual`, both skip terms are absent.

    `shared` collects the learned scalars that both branches of the layer use.
    """

    def __init__(
        self, config: RunConfig, scheme: Scheme, site: Site, function: BranchFunction, shared: dict[str, nn.Module]
    ) -> None:
        super().__init__()
        doors = scheme.doors(site)

        def norm(door: str, width: int) -> nn.Module:
            return (make_norm(config.norm, width, config) if door in doors else None) or nn.Identity()

        def scale(name: str) -> nn.Module:
            row = scheme.scales(site.branch)[name]
            return shared.setdefault(name, _scale(row, site)) if row.learned and row.shared else _scale(row, site)

        self.before = norm("before", config.width)
        self.branch_in = scale("branch_in")
        self.f = function(config, norm)
        self.output = norm("output", config.width)
        self.branch_out = scale("branch_out")
        self.skip = scale("skip") if config.residual else None
        bottom = scheme.scales(site.branch)["bottom"]
        has_bottom = config.residual and (bottom.learned or bottom.value(site) != 0)
        self.bottom = scale("bottom") if has_bottom else None
        self.after = norm("after", config.width)

    def forward(self, x_btd: Tensor, block_input_btd: Tensor) -> Tensor:
        y_btd = self.branch_out(self.output(self.f(self.branch_in(self.before(x_btd)))))
        if self.skip is not None:
            y_btd = self.skip(x_btd) + y_btd
        if self.bottom is not None:
            y_btd = y_btd + self.bottom(block_input_btd)
        return self.after(y_btd)  # type: ignore[no-any-return]


class Block(nn.Module):
    """The mixer branch, then the FFN branch: (b, t, d) to (b, t, d)."""

    def __init__(self, config: RunConfig, layer: int) -> None:
        super().__init__()
        scheme, shared = SCHEMES[config.position], dict[str, nn.Module]()

        def branch(name: str, function: BranchFunction) -> Branch:
            return Branch(config, scheme, scheme.site(config, layer, name), function, shared)

        self.mixer = branch("mixer", MIXERS[config.mixer])
        self.ffn = branch("ffn", FeedForward)

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.ffn(self.mixer(x_btd, x_btd), x_btd)  # type: ignore[no-any-return]
