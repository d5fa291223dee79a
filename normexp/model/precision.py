"""Networks whose activations have 16 bits, while their parameters stay in float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig


class InFloat32(nn.Module):
    """A norm whose input is widened to float32 and whose output is rounded back; its parameters are never cast."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.float()).to(x.dtype)  # type: ignore[no-any-return]


def cast_parameters(network: nn.Module, dtype: torch.dtype) -> dict[str, Tensor]:
    """A copy of each parameter in `dtype`, through which gradients reach the float32 one; those in InFloat32 as is."""
    wide = {id(p) for module in network.modules() if isinstance(module, InFloat32) for p in module.parameters()}
    return {name: p if id(p) in wide else p.to(dtype) for name, p in network.named_parameters()}


def logits(network: nn.Module, tokens_bt: Tensor, run: RunConfig) -> Tensor:
    """Logits (b, t, v) in float32, computed with activations and matrices of the run's dtype."""
    if run.dtype == "float32":
        return network(tokens_bt)  # type: ignore[no-any-return]
    parameters = cast_parameters(network, getattr(torch, run.dtype))
    # Modules that two branches share are swapped once: tying would put the copy back in place of the parameter.
    computed: Tensor = torch.func.functional_call(network, parameters, (tokens_bt,), tie_weights=False)
    return computed.float()
