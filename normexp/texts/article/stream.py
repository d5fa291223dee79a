"""The residual stream at initialization: its growth, and what can be read from it (sections 2.1, 4.3 and 4.4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.texts.article.printed import SETTINGS, Make, PreLNBlock, in_settings, norm, setting
from normexp.texts.figures import Figures, Observed, by_condition, compare_printed, one_seed, same
from normexp.training.layer_signal import activations, forward_signal, hooked, rms
from normexp.training.trainer import Trainer

SEED, WIDTH, LAYERS = 11, 128, 12
PROBED = 256
"""Number of sequences for the probe: half to fit it, half to test it."""
FACTOR = 100.0
"""The factor on fc2 in `sandwich_bounds_writes`."""


def printed_streams(seed: int) -> list[Tensor]:
    """Follow the article's procedure: return the stream (b, t, d) before the first of 12 blocks and after each."""
    torch.manual_seed(SEED + seed)
    blocks = [PreLNBlock(WIDTH, WIDTH * 4) for _ in range(LAYERS)]
    streams = [torch.randn(2, 16, WIDTH)]
    with torch.no_grad():
        for block in blocks:
            streams.append(block(streams[-1]))
    return streams


def _norms(streams: list[Tensor]) -> list[float]:
    return [x_btd.norm(dim=-1).mean().item() for x_btd in streams]


def printed(seed: int, figures: Figures) -> Finding:
    """Compare the magnitudes by layer, and after the final norm, with those that the article's code prints."""
    streams = printed_streams(seed)
    final = norm("ln", WIDTH)(streams[-1]).detach()
    return compare_printed(
        _norms([*streams, final]), figures, f"magnitudes by layer, then after the final norm, seed {SEED + seed}"
    )


def growth(seed: int, figures: Figures) -> Finding:
    """Compare the first and last magnitude, their ratio, and the growth per layer in percent with the figures."""
    norms = _norms(printed_streams(seed))
    ratio = norms[-1] / norms[0]
    values = [norms[0], norms[-1], ratio, 100 * (ratio ** (1 / LAYERS) - 1)]
    return compare_printed(values, figures, f"first, last, ratio, percent per layer, seed {SEED + seed}")


def writes_shrink(seed: int) -> Finding:
    """Check that the last quarter of the blocks writes less, relative to the stream, than the first quarter."""
    streams = printed_streams(seed)
    shares = [float((after - before).norm() / before.norm()) for before, after in itertools.pairwise(streams)]
    early, late = sum(shares[:3]) / 3, sum(shares[-3:]) / 3
    measured = f"{early:.3f} in the first three layers, {late:.3f} in the last three"
    return one_seed(late < early, measured, f"writes over the stream: {measured}, seed {SEED + seed}")


def starts_near_zero(seed: int) -> Finding:
    """Check that a block writes less than 5 % of the stream at initialization."""
    streams = printed_streams(seed)
    share = float((streams[1] - streams[0]).norm() / streams[0].norm())
    weight = float(next(PreLNBlock(WIDTH, WIDTH * 4).sub.parameters()).detach().std())
    measured = f"the first block writes {share:.2f} of the stream"
    sentence = f"{measured}, with weights of std {weight:.3f}, 1/sqrt(3 d) being {1 / math.sqrt(3 * WIDTH):.3f}"
    return one_seed(share < 0.05, measured, sentence)


def by_layer(config: RunConfig) -> list[float]:
    """Return the RMS of the residual stream at initialization, before the first layer and after each."""
    trainer = Trainer(config, autograd=True)
    with torch.no_grad(), forward_signal(trainer.network) as signal:
        trainer.loss(trainer.signal_batch)
    return [signal["rms"][layer, "stream"] for layer in range(config.depth + 1)]


def post_pins(seed: int, position: str = "post") -> Finding:
    """Check that the magnitude of the stream is within 0.1 % of sqrt(d) after every layer of Post-LN."""

    def look(make: Make) -> Observed:
        sizes = by_layer(make(depth=LAYERS, seed=seed, position=position))[1:]
        worst = max(sizes, key=lambda size: abs(size - 1))
        return abs(worst - 1) < 1e-3, f"{8 * worst:.4f}"

    return in_settings(look, f"the magnitude farthest from 8 in 12 layers, seed {seed}")


def pre_grows(seed: int, position: str = "pre") -> Finding:
    """Check that the stream grows in every layer of Pre-LN."""

    def look(make: Make) -> Observed:
        sizes = by_layer(make(depth=LAYERS, seed=seed, position=position))
        rising = all(before < after for before, after in itertools.pairwise(sizes))
        return rising, f"{sizes[0]:.2f} to {sizes[-1]:.2f}"

    return in_settings(look, f"RMS of the stream before and after 12 layers, seed {seed}")


def sandwich_bounds_writes(seed: int, bounded: str = "sandwich", free: str = "pre") -> Finding:
    """Check that with fc2 times 100, the last FFN's output grows as much in Pre-LN, not in Sandwich."""

    def look(make: Make) -> Observed:
        grown = []
        for position in (bounded, free):
            trainer = Trainer(make(depth=20, seed=seed, position=position), autograd=True)
            before = _last_write(trainer)
            with torch.no_grad():
                for parameter in trainer.network.blocks["20"].get_submodule("ffn.f.fc2").parameters():
                    parameter.mul_(FACTOR)
            grown.append(_last_write(trainer) / before)
        holds = abs(grown[0] - 1) < 0.01 and abs(grown[1] / FACTOR - 1) < 0.01
        return holds, f"Sandwich {grown[0]:.3g}, Pre {grown[1]:.3g}"

    return in_settings(look, f"growth of the last FFN's output if fc2 is multiplied by 100, seed {seed}")


def _last_write(trainer: Trainer) -> float:
    """Return the RMS of what the FFN of layer 20 adds to the stream, on one batch."""
    ffn, seen = trainer.network.blocks["20"].get_submodule("ffn"), list[Tensor]()
    handle = ffn.register_forward_hook(lambda module, inputs, y: seen.append(y - inputs[0]))
    with torch.no_grad(), hooked([handle]):
        trainer.loss(trainer.signal_batch)
    return rms(seen[0])


def growth_at_start(seed: int, figures: Figures) -> Finding:
    """Compare the growth of the stream over 12 Pre-LN layers with the figure, in the article's blocks and settings."""
    norms = _norms(printed_streams(seed))
    ratios = {"in the blocks of 4.4": norms[-1] / norms[0]}
    for name in SETTINGS:
        sizes = by_layer(setting(name)(depth=LAYERS, seed=seed, position="pre"))
        ratios[name] = sizes[-1] / sizes[0]
    own: Mapping[str, Observed] = {name: (same(ratio, figures[0]), f"{ratio:.2f}") for name, ratio in ratios.items()}
    return by_condition(own, {}, "the stream after 12 layers over that before them")


def readable(config: RunConfig) -> list[float]:
    """Return the share of input tokens that a linear probe reads from the stream, by layer from 0.

    The probe is a least-squares fit on half of the sequences, tested on the other half.
    """
    trainer = Trainer(config, autograd=True)
    tokens_bt = torch.from_numpy(trainer.validation.inputs_nt[:PROBED])
    streams: dict[int, Tensor] = {}

    def see(layer: int, part: str, values: Tensor) -> None:
        if part == "stream" and layer <= config.depth:
            streams[layer] = values.double()

    with torch.no_grad(), activations(trainer.network, see):
        trainer.network(tokens_bt)
    wanted = torch.nn.functional.one_hot(tokens_bt, config.vocab).double()
    return [_probed(streams[layer], wanted) for layer in range(config.depth + 1)]


def _probed(x_btd: Tensor, wanted_btv: Tensor) -> float:
    scaled_btd = x_btd / x_btd.square().mean().sqrt()
    x_btd = torch.cat([scaled_btd, torch.ones_like(scaled_btd[..., :1])], dim=-1)
    half = PROBED // 2
    weights = torch.linalg.lstsq(x_btd[:half].flatten(0, 1), wanted_btv[:half].flatten(0, 1), driver="gelsd").solution
    right_bt = (x_btd[half:] @ weights).argmax(dim=-1) == wanted_btv[half:].argmax(dim=-1)
    return float(right_bt.double().mean())


def early_is_readable(seed: int, residual: bool = True) -> Finding:
    """Check that a linear probe reads over 90 % of input tokens after every one of 20 Pre-LN layers."""

    def look(make: Make) -> Observed:
        rates = readable(make(depth=20, seed=seed, position="pre", residual=residual))
        return min(rates) > 0.9, f"{rates[0]:.0%} at the embedding, {rates[-1]:.0%} after layer 20"

    return in_settings(look, f"input tokens that a linear probe reads correctly from the stream, seed {seed}")


def plain_overwrites(seed: int, residual: bool = False) -> Finding:
    """Check that without residual connections, it reads less than 50 % of them after 20 layers."""

    def look(make: Make) -> Observed:
        rates = readable(make(depth=20, seed=seed, position="pre", residual=residual))
        return rates[-1] < 0.5, f"{rates[-1]:.0%}"

    return in_settings(look, f"input tokens that a linear probe reads correctly after layer 20, seed {seed}")
