"""What is said of a single norm, calculated."""

from __future__ import annotations

from normexp.claims.claim import Finding


def layer_norm_by_hand(seed: int) -> Finding:
    """The formula with the biased variance over the last axis is torch's LayerNorm, to 1e-6 and not to the last bit."""
    import torch
    from torch import nn

    x_btd = torch.randn(4, 32, 256, generator=torch.Generator().manual_seed(seed)) * 3 + 2
    reference = nn.LayerNorm(256)(x_btd)
    centered = x_btd - x_btd.mean(dim=-1, keepdim=True)
    errors = {}
    for name, divisor in (("biased", 256), ("unbiased", 255)):
        variance = centered.square().sum(dim=-1, keepdim=True) / divisor
        errors[name] = float((centered / torch.sqrt(variance + 1e-5) - reference).detach().abs().max())
    holds = 0 < errors["biased"] < 5e-6 < errors["unbiased"]
    measured = f"largest error {errors['biased']:.1e}, with unbiased variance {errors['unbiased']:.1e}"
    return Finding(holds=holds, measured=measured, sentence=f"{measured}, seed {seed}", seeds=1)


def norm_parameters(seed: int) -> Finding:
    """LayerNorm has 2d parameters and RMSNorm d, so that d = 4096 saves 4096 a norm."""
    from torch import nn

    width = 4096
    layer, rms = (
        sum(weight.numel() for weight in module.parameters()) for module in (nn.LayerNorm(width), nn.RMSNorm(width))
    )
    measured = f"{layer} and {rms} at d = {width}: {layer - rms} saved"
    return Finding(holds=(layer, rms) == (2 * width, width), measured=measured, sentence=measured, seeds=1)
