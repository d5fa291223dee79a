"""The behaviour of the code of section 6.1, and of the check of section 7.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from normexp.claims.claim import Finding
from normexp.model.network import build
from normexp.schemes.norms import NORMS
from normexp.texts.article.printed import PreLNBlock, ToyDeepNet, norm, setting
from normexp.texts.figures import Figures, Observed, by_condition, contradiction, one_seed

PRINTED = "in the code of 6.1"


def _tokens(seed: int) -> Tensor:
    return torch.randint(0, 64, (8, 16), generator=torch.Generator().manual_seed(seed))


def _toy(seed: int, name: str, pos: str) -> ToyDeepNet:
    torch.manual_seed(seed)
    return ToyDeepNet(name, pos)


@torch.no_grad()
def _moved(network: nn.Module, seed: int) -> Observed:
    """Return whether the last position's logits depend on the tokens before it."""
    tokens_bt = _tokens(seed)
    others_bt = torch.cat([(tokens_bt[:, :-1] + 1) % 64, tokens_bt[:, -1:]], dim=1)
    moved = float((network(others_bt)[:, -1] - network(tokens_bt)[:, -1]).abs().max())
    return moved > 0, f"{moved:.2g}"


def sees_context(seed: int, names: Sequence[str] = ("as described", "as a Transformer")) -> Finding:
    """Check that the last position's logits change when all tokens before it change."""
    own = {PRINTED: _moved(_toy(seed, "ln", "pre"), seed)}
    others = {name: _moved(build(setting(name)(depth=20, seed=seed)), seed) for name in names}
    return by_condition(own, others, "change of the last position's logits when all tokens before it change")


def norm_free(seed: int, name: str = "none", pos: str = "pre") -> Finding:
    """Check that the network without a norm contains no norm."""
    kinds = tuple(type(norm(known, 8)) for known in NORMS)
    count = sum(isinstance(module, kinds) for module in _toy(seed, name, pos).modules())
    measured = f"{count} norm" + "s" * (count != 1)
    return contradiction(
        count == 0, measured, f"norm={name}, pos={pos} in the article's code has {measured}, before the LM head"
    )


def rms_alone(seed: int, name: str = "rms", pos: str = "pre") -> Finding:
    """Check that the network with RMSNorm contains no LayerNorm."""
    kind = type(norm("ln", 8))
    count = sum(isinstance(module, kind) for module in _toy(seed, name, pos).modules())
    measured = f"{count} LayerNorm" + "s" * (count != 1)
    return contradiction(
        count == 0, measured, f"norm={name}, pos={pos} in the article's code has {measured}, before the LM head"
    )


@torch.no_grad()
def position_means_nothing(seed: int, name: str = "none", other: str = "post") -> Finding:
    """Check that without a norm, 20 layers of position pre and post compute the same."""
    tokens_bt = _tokens(seed)
    logits = {pos: _toy(seed, name, pos)(tokens_bt).flatten(0, 1) for pos in ("pre", other)}
    losses = {pos: float(functional.cross_entropy(values, tokens_bt.flatten())) for pos, values in logits.items()}
    same = torch.equal(logits["pre"], logits[other])
    measured = "the same" if same else f"loss {losses['pre']:.2f} with pre, {losses[other]:.2f} with post"
    return contradiction(same, measured, f"at initialization, on random targets, {measured}, seed {seed}")


def same_start(seed: int, other_seed: int = 0) -> Finding:
    """Check that all norms and both positions start from the same matrices."""
    first = _matrices(_toy(seed, "none", "pre"))
    others = [_matrices(_toy(seed + other_seed, name, pos)) for name in ("ln", "rms") for pos in ("pre", "post")]
    holds = all(all(map(torch.equal, first, other)) for other in others)
    measured = "the same matrices" if holds else "other matrices"
    return one_seed(holds, measured, f"{measured} in all configurations with seed {seed}")


def _matrices(network: nn.Module) -> list[Tensor]:
    return [parameter for parameter in network.parameters() if parameter.dim() == 2]


def gelu_saturates(seed: int, figures: Figures, activation: Callable[[Tensor], Tensor] = functional.gelu) -> Finding:
    """Check that GELU's derivative is below 0.01 at negative and at positive inputs of the stated size."""
    x = torch.tensor([-float(figures[0]), float(figures[0])], requires_grad=True)
    (slopes,) = torch.autograd.grad(activation(x).sum(), x)
    names = ("for negative inputs", "for positive inputs")
    seen = {name: (abs(float(slope)) < 0.01, f"{slope:.2g}") for name, slope in zip(names, slopes, strict=True)}
    return by_condition(seen, {}, f"GELU's derivative at inputs of {float(figures[0]):g} with either sign")


class PreLNNet(nn.Module):
    """The network of section 7.2 with a final RMSNorm. If `forgetful`, it has the norm but does not call it."""

    def __init__(self, d: int, layers: int, vocab: int, forgetful: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([PreLNBlock(d, d * 4) for _ in range(layers)])
        self.norm: nn.Module | None = norm("rms", d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.forgetful = forgetful

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x if self.forgetful or self.norm is None else self.norm(x))  # type: ignore[no-any-return]


@torch.no_grad()
def _checked(seed: int, forgetful: bool) -> tuple[float, float]:
    """Return the magnitude that the article's check prints, and the true one of the LM head's input."""
    torch.manual_seed(seed)
    network, seen = PreLNNet(128, 8, 1000, forgetful), list[Tensor]()
    network.head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    network(torch.randn(2, 10, 128))
    assert network.norm is not None
    printed = network.norm(torch.randn(2, 10, 128)).norm(dim=-1).mean().item()
    return printed, seen[0].norm(dim=-1).mean().item()


def check_finds_the_fault(seed: int, forgetful: bool = True, missing: bool = True, empty: bool = True) -> Finding:
    """Check that the article's check detects a final norm that is missing, an identity, or not called.

    The article's check tests whether the module exists, and prints a magnitude, which must be within 1 % of that of the
    LM head's input.
    """
    lacking, hollow = PreLNNet(8, 1, 8), PreLNNet(8, 1, 8)
    if missing:
        del lacking.norm
    hollow.norm = nn.Identity() if empty else None
    has_final, has_identity = (hasattr(net, "norm") and isinstance(net.norm, nn.Module) for net in (lacking, hollow))
    printed, real = _checked(seed, forgetful)
    seen = {
        "where the module is missing": (not has_final, f"it says {has_final}"),
        "where the module is an identity": (not has_identity, f"it says {has_identity}"),
        "where the module is not called": (
            abs(printed / real - 1) < 0.01,
            f"it prints {printed:.2f}, and the LM head's input has {real:.2f}",
        ),
    }
    return by_condition(seen, {}, "the check on a network without a working final norm")
