"""Norms on queries and keys (section 5.1)."""

from __future__ import annotations

import math

import torch

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.branches import QK_NORMS, Attention
from normexp.model.network import build
from normexp.texts.article.printed import QKNormAttention
from normexp.texts.figures import Figures, Observed, by_condition, contradiction, one_seed
from normexp.training.trainer import parameter_count


def parameters(seed: int, figures: Figures, qk_norm: str = "rms") -> Finding:
    """Check the number of parameters that QK-Norm adds.

    The figures are the width, the number of heads, and the stated number of added parameters.
    """
    width, heads, stated = map(int, figures)
    counts = {
        name: sum(map(parameter_count, QK_NORMS[name].make(RunConfig(width=width, heads=heads))))
        for name in (qk_norm, "full")
    }
    measured = f"{counts[qk_norm]} per layer at d = {width} in {heads} heads"
    sentence = f"{measured}, twice the features of a head; over all heads together it would be {counts['full']}"
    return contradiction(counts[qk_norm] == stated, measured, sentence)


def unit_variance(seed: int, std: float = 1.0) -> Finding:
    """Check that logits over sqrt(d_k) have variance 1, within 5 %, if queries and keys have variance 1."""
    torch.manual_seed(seed)
    q_bk, k_bk = torch.randn(2000, 16), torch.randn(2000, 16)
    logit_std = float((std * q_bk @ (std * k_bk).T / 4).std())
    sentence = f"standard deviation of the logits {logit_std:.3f}, seed {seed}"
    return one_seed(abs(logit_std - 1) < 0.05, f"std {logit_std:.3f}", sentence)


def bounded(seed: int, qk_norm: str = "rms") -> Finding:
    """Check that with QK-Norm no logit exceeds sqrt(d_k), whatever the weights of queries and keys or the gains.

    The norm that the article prints has gains, which training changes.
    """
    unbounded = f"without {_largest(seed, 'none', 1.0):.3g}"

    def look(gain: float) -> Observed:
        largest = _largest(seed, qk_norm, gain)
        return largest <= 4 * (1 + 1e-5), f"{largest:.3f}, {unbounded}"

    sentence = f"largest logit with the weights of queries and keys times 100; sqrt(d_k) is 4, seed {seed}"
    return by_condition({"at gains of 1": look(1.0), "at gains of 2": look(2.0)}, {}, sentence)


@torch.no_grad()
def _largest(seed: int, qk_norm: str, gain: float) -> float:
    config = RunConfig(depth=1, qk_norm=qk_norm, seed=seed)
    attention = build(config).get_submodule("blocks.1.mixer.f")
    assert isinstance(attention, Attention)
    attention.qkv.weight.mul_(100)
    for module in (attention.q_norm, attention.k_norm):
        for gains in module.parameters():
            gains.mul_(gain)
    torch.manual_seed(seed)
    q_bhtk, k_bhtk, _ = attention.queries_keys_values(torch.randn(8, config.seq_len, config.width))
    logits_bhtt = q_bhtk @ k_bhtk.transpose(-1, -2) / math.sqrt(config.width // config.heads)
    return float(logits_bhtt.abs().max())


@torch.no_grad()
def differs_by_norms_alone(seed: int, *, causal: bool = False, projected: bool = False) -> Finding:
    """Check that the article's attention, norms aside, is that of a decoder: causal, with an output projection."""
    torch.manual_seed(seed)
    network = QKNormAttention(64, 4, causal=causal, projected=projected)
    x_btd = torch.randn(8, 16, 64)
    later_btd = torch.cat([x_btd[:, :8], torch.randn(8, 8, 64)], dim=1)
    moved = float((network(later_btd)[:, :8] - network(x_btd)[:, :8]).abs().max())
    decoder = build(RunConfig(depth=1, width=64, heads=4)).get_submodule("blocks.1.mixer.f")
    own, wanted = (sum(p.numel() for p in module.parameters() if p.dim() == 2) for module in (network, decoder))
    seen = {
        "as to the causal mask": (moved == 0, f"later tokens move earlier outputs by {moved:.2g}"),
        "as to the output projection": (own == wanted, f"{own} weights in matrices, in a decoder {wanted}"),
    }
    return by_condition(seen, {}, f"the printed attention, seed {seed}")


def saturates(seed: int, factor: float = 10.0) -> Finding:
    """Check that ten times larger queries and keys make attention nearly one-hot and halve its gradient."""
    torch.manual_seed(seed)
    q_btk, k_btk, v_btk, upstream = (torch.randn(64, 16, 16) for _ in range(4))
    entropies, gradients = {}, {}
    for times in (1.0, factor):
        logits_btt = (times * q_btk @ (times * k_btk).transpose(-1, -2) / 4).requires_grad_()
        weights_btt = torch.softmax(logits_btt, dim=-1)
        entropies[times] = float(torch.special.entr(weights_btt.detach()).sum(dim=-1).mean())
        (grad,) = torch.autograd.grad((weights_btt @ v_btk * upstream).sum(), logits_btt)
        gradients[times] = float(grad.norm())
    softer, sharper = (f"{entropies[at]:.3f} nats, gradient {gradients[at]:.1f}" for at in (1.0, factor))
    measured = f"entropy {softer} to {sharper}"
    holds = entropies[factor] < 0.1 and gradients[factor] < 0.5 * gradients[1.0]
    return one_seed(holds, measured, f"with queries and keys ten times larger: {measured}, seed {seed}")
