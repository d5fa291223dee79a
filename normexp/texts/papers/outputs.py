"""The output of a single norm for given rows, in float64 and without eps."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.network import build
from normexp.model.norms import make_norm
from normexp.training.conversion import dropped, folded, widened

WIDTH = 64


def normalized(norm: str, x_nd: Tensor) -> Tensor:
    """Apply a norm of the program without eps over the last axis."""
    module = make_norm(norm, x_nd.shape[-1], RunConfig(eps=0.0))
    assert module is not None
    with torch.no_grad():
        return module.to(x_nd.dtype)(x_nd)  # type: ignore[no-any-return]


def rows(seed: int, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Return 200 rows of 4096 features from N(mean, std^2) in float64."""
    random = torch.Generator().manual_seed(seed)
    return mean + std * torch.randn(200, 4096, generator=random, dtype=torch.float64)


def rms_statistics(mean: float, std: float, seed: int = 0) -> tuple[float, float]:
    """Return the mean and standard deviation of RMSNorm's output rows for rows from N(mean, std^2)."""
    y_nd = normalized("rms", rows(seed, mean, std))
    return float(y_nd.mean()), float(y_nd.std(dim=-1).mean())


def largest_output(norm: str) -> float:
    """Return the largest output of a norm over 64 features, reached if only one feature is not 0."""
    return float(normalized(norm, torch.eye(WIDTH, dtype=torch.float64)).abs().max())


def heavy_rows(seed: int) -> Tensor:
    """Return 10,000 rows of 64 heavy-tailed features: normal numbers to the power of 9."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(10_000, WIDTH, generator=random, dtype=torch.float64).pow(9)


def fold_errors(seed: int) -> tuple[float, float, float]:
    """Return logit errors of a Pre network with random gains and biases.

    Returns the largest error of its fold, the largest error if gains are kept and biases dropped, and the standard
    deviation of the logits.
    """
    network = widened(build(RunConfig(depth=6, position="pre", norm="ln", seed=seed)))
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for norm in (module for module in network.modules() if isinstance(module, nn.LayerNorm)):
            for parameter in norm.parameters():
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=random, dtype=parameter.dtype))
        tokens_bt = torch.randint(network.config.vocab, (32, network.config.seq_len), generator=random)
        before_btv = network(tokens_bt)
        error, kept = (
            float((made.network(tokens_bt) - before_btv).abs().max()) for made in (folded(network), dropped(network))
        )
        return error, kept, float(before_btv.std())
