"""LayerNorm's weights in RMSNorm, and Pre-LN's in Post-LN (sections 7.3 and 7.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.network import Network, build
from normexp.texts.article.printed import norm
from normexp.texts.figures import Seen, circumstances, plain
from normexp.training.conversion import ROUNDING, Converted, convert, dropped, folded, to_layer_norm
from normexp.training.trainer import Trainer

CONFIG = RunConfig(depth=6, norm="ln", position="pre")
SMALL = RunConfig(depth=6, width=32, heads=2, hidden=64, batch=16, lr=3e-3, steps=150)
TRAINED = replace(SMALL, depth=2, lr=1e-2, steps=800)
CALIBRATION = 50
FOLDED = {"in Pre-LN": "pre", "in Post-LN": "post"}


def convert_ln_to_rms(sd_ln: dict[str, Tensor], keys: list[str]) -> dict[str, Tensor]:
    """As printed."""
    return {key.replace("bias", "weight"): sd_ln[key.replace("bias", "weight")] for key in keys}


def load_fails(seed: int, old: str = "ln", new: str = "rms") -> Finding:
    """Loading LayerNorm's weights into RMSNorm fails."""
    try:
        norm(new, 8).load_state_dict(norm(old, 8).state_dict())
        said = "nothing fails"
    except RuntimeError as error:
        said = " ".join(str(error).partition(":")[2].split())
    return plain(said != "nothing fails", said, f"loading it says: {said}")


def keys_kept(seed: int, keys: Sequence[str] = ("bias",)) -> Finding:
    """The printed mapping leaves the key weight alone."""
    found = list(convert_ln_to_rms(dict(norm("ln", 8).state_dict()), list(keys)))
    return plain(found == ["weight"], f"{found}", f"its mapping has the keys {found}")


@torch.no_grad()
def used(seed: int, config: RunConfig = CONFIG) -> Network:
    """A network in float64 with gains and biases as training might leave them, but none of the final norm."""
    network = build(replace(config, seed=seed)).double()
    torch.manual_seed(seed)
    for name, parameter in network.named_parameters():
        if parameter.dim() == 1 and "final_norm.bias" not in name:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


@torch.no_grad()
def error(network: Network, made: Converted) -> tuple[float, float]:
    """Largest difference of logits on random tokens, and their standard deviation before."""
    run = network.config
    tokens_bt = torch.randint(0, run.vocab, (32, run.seq_len), generator=torch.Generator().manual_seed(0))
    before, after = network.eval()(tokens_bt), made.network.eval()(tokens_bt)
    return float((after - before).abs().max()), float(before.std())


def gains_alone_are_wrong(seed: int, make: Callable[[Network], Converted] = dropped) -> Finding:
    """With the gains kept and the biases dropped, logits move by more than a hundredth of their spread."""
    network = used(seed)
    largest, std = error(network, make(network))
    measured = f"largest logit error {largest:.2g} at a spread of {std:.2g}"
    return plain(largest > 0.01 * std, measured, f"gains kept, biases dropped: {measured}, seed {seed}")


def no_exact_map(seed: int, positions: Mapping[str, str] = FOLDED) -> Finding:
    """The fold of mean and bias into the neighbouring matrices moves the logits by more than rounding."""

    def look(position: str) -> Seen:
        network = used(seed, replace(CONFIG, position=position))
        made = folded(network)
        largest, std = error(network, made)
        kept = made.config.norm == "ln" or made.config.final_norm == "ln"
        why = f" ({made.reasons[0]})" if made.reasons else ""
        return kept or largest > ROUNDING * std, f"largest logit error {largest:.1e} at a spread of {std:.2g}{why}"

    seen = {name: look(position) for name, position in positions.items()}
    return circumstances(seen, {}, f"mean and bias folded, seed {seed}")


def rms_to_layer_norm_is_wrong(seed: int, make: Callable[[Network], Converted] = to_layer_norm) -> Finding:
    """With RMSNorm's gains in LayerNorm and biases of 0, logits move by more than a hundredth of their spread."""
    network = used(seed, replace(CONFIG, norm="rms", final_norm="rms"))
    largest, std = error(network, make(network))
    measured = f"largest logit error {largest:.2g} at a spread of {std:.2g}"
    return plain(largest > 0.01 * std, measured, f"RMSNorm's gains in LayerNorm: {measured}, seed {seed}")


def _trained(config: RunConfig) -> Trainer:
    trainer = Trainer(config)
    batches = trainer.task.batches(config.seed, config.batch)
    for number in range(1, config.steps + 1):
        trainer.step(number, next(batches))
    return trainer


def loss_rises(seed: int, steps: int = TRAINED.steps) -> Finding:
    """Of a trained network, dropping biases raises the loss by more than 0.03 nats; the loss 50 steps later is told."""
    trainer = _trained(replace(TRAINED, seed=seed, steps=steps))
    made = convert(trainer.network, "rms", final_norm="rms", calibrate=CALIBRATION)
    losses = {row.name: row.loss for row in made.measured}
    told = "; ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    before, without = losses["before"], losses["biases dropped"]
    measured = f"{before:.3f} to {without:.3f}"
    return plain(without > before + 0.03, measured, f"validation loss in nats: {told}, seed {seed}")


def pre_then_post(seed: int, position: str = "post") -> Finding:
    """A Pre-LN network of 6 layers, made Post-LN after 150 steps with its weights, keeps half of what it learned."""
    config = replace(SMALL, seed=seed)
    trainer = _trained(config)
    before, start = trainer.evaluate(), Trainer(config).evaluate()
    after = Trainer(replace(config, position=position), moved(trainer.network, position)).evaluate()
    measured = f"loss {before:.2f} to {after:.2f}, {start:.2f} at initialization"
    holds = math.isfinite(after) and after < (before + start) / 2
    return plain(holds, measured, f"at the switch, validation {measured}, seed {seed}")


def moved(network: Network, position: str) -> Network:
    """The weights in a network of another position: norms before branches become those after sums."""
    made, old = build(replace(network.config, position=position)), network.state_dict()
    made.load_state_dict(
        {name: old[name if name in old else name.replace(".after.", ".before.")] for name in made.state_dict()}
    )
    return made
