"""Networks with 16-bit activations and float32 parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig


class InFloat32(nn.Module):
    """Casts the input of a norm to float32 and its output back. The parameters of the norm are never cast."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.float()).to(x.dtype)  # type: ignore[no-any-return]


def cast_parameters(network: nn.Module, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a copy of each parameter in `dtype` that passes gradients on; parameters in InFloat32 stay as they are."""
    wide = {id(p) for module in network.modules() if isinstance(module, InFloat32) for p in module.parameters()}
    return {name: p if id(p) in wide else p.to(dtype) for name, p in network.named_parameters()}


def logits(network: nn.Module, tokens_bt: Tensor, run: RunConfig) -> Tensor:
    """Return logits (b, t, v) in float32, computed with activations and matrices in the run's dtype."""
    if run.dtype == "float32":
        return network(tokens_bt)  # type: ignore[no-any-return]
    parameters = cast_parameters(network, getattr(torch, run.dtype))
    # Replace modules that two branches share only once: tying would write the copy back in place of the parameter.
    computed: Tensor = torch.func.functional_call(network, parameters, (tokens_bt,), tie_weights=False)
    return computed.float()
