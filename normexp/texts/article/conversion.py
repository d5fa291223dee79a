"""Loading LayerNorm's weights into RMSNorm (section 7.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.network import Network, build
from normexp.texts.article.printed import norm
from normexp.texts.figures import Observed, by_condition, one_seed
from normexp.training.conversion import ROUNDING, Converted, convert, dropped, folded, to_layer_norm
from normexp.training.trainer import Trainer

CONFIG = RunConfig(depth=6, norm="ln", position="pre")
TRAINED = RunConfig(depth=2, width=32, heads=2, hidden=64, batch=16, lr=1e-2, steps=800)
CALIBRATION = 50
FOLDED = {"in Pre-LN": "pre", "in Post-LN": "post"}


def convert_ln_to_rms(sd_ln: dict[str, Tensor], keys: list[str]) -> dict[str, Tensor]:
    """Map the weights as in the article's code."""
    return {key.replace("bias", "weight"): sd_ln[key.replace("bias", "weight")] for key in keys}


def load_fails(seed: int, old: str = "ln", new: str = "rms") -> Finding:
    """Check that loading LayerNorm's weights into RMSNorm fails."""
    try:
        norm(new, 8).load_state_dict(norm(old, 8).state_dict())
        message = "nothing fails"
    except RuntimeError as error:
        message = " ".join(str(error).partition(":")[2].split())
    return one_seed(message != "nothing fails", message, f"the error when loading: {message}")


def keys_kept(seed: int, keys: Sequence[str] = ("bias",)) -> Finding:
    """Check that the printed mapping keeps only the key `weight`."""
    kept = list(convert_ln_to_rms(dict(norm("ln", 8).state_dict()), list(keys)))
    return one_seed(kept == ["weight"], f"{kept}", f"the printed mapping has the keys {kept}")


@torch.no_grad()
def used(seed: int, config: RunConfig = CONFIG) -> Network:
    """Return a float64 network with random gains and biases, as after training, except the final norm's bias."""
    network = build(replace(config, seed=seed)).double()
    torch.manual_seed(seed)
    for name, parameter in network.named_parameters():
        if parameter.dim() == 1 and "final_norm.bias" not in name:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


@torch.no_grad()
def error(network: Network, converted: Converted) -> tuple[float, float]:
    """Return the largest difference of the logits on random tokens, and the logits' standard deviation before."""
    run = network.config
    tokens_bt = torch.randint(0, run.vocab, (32, run.seq_len), generator=torch.Generator().manual_seed(0))
    before, after = network.eval()(tokens_bt), converted.network.eval()(tokens_bt)
    return float((after - before).abs().max()), float(before.std())


def gains_alone_are_wrong(seed: int, make: Callable[[Network], Converted] = dropped) -> Finding:
    """Check that keeping gains and dropping biases moves the logits by over 1 % of their spread."""
    network = used(seed)
    largest, std = error(network, make(network))
    measured = f"largest logit error {largest:.2g} at a spread of {std:.2g}"
    return one_seed(largest > 0.01 * std, measured, f"gains kept, biases dropped: {measured}, seed {seed}")


def no_exact_map(seed: int, positions: Mapping[str, str] = FOLDED) -> Finding:
    """Check that folding mean and bias into neighbouring matrices moves the logits by more than rounding."""

    def look(position: str) -> Observed:
        network = used(seed, replace(CONFIG, position=position))
        converted = folded(network)
        largest, std = error(network, converted)
        kept = converted.config.norm == "ln" or converted.config.final_norm == "ln"
        why = f" ({converted.reasons[0]})" if converted.reasons else ""
        return kept or largest > ROUNDING * std, f"largest logit error {largest:.1e} at a spread of {std:.2g}{why}"

    seen = {name: look(position) for name, position in positions.items()}
    return by_condition(seen, {}, f"mean and bias folded, seed {seed}")


def rms_to_layer_norm_is_wrong(seed: int, make: Callable[[Network], Converted] = to_layer_norm) -> Finding:
    """Check that RMSNorm's gains in LayerNorm move the logits by over 1 % of their spread."""
    network = used(seed, replace(CONFIG, norm="rms", final_norm="rms"))
    largest, std = error(network, make(network))
    measured = f"largest logit error {largest:.2g} at a spread of {std:.2g}"
    return one_seed(largest > 0.01 * std, measured, f"RMSNorm's gains in LayerNorm: {measured}, seed {seed}")


def _trained(config: RunConfig) -> Trainer:
    trainer = Trainer(config)
    batches = trainer.task.batches(config.seed, config.batch)
    for number in range(1, config.steps + 1):
        trainer.step(number, next(batches))
    return trainer


def loss_rises(seed: int, steps: int = TRAINED.steps) -> Finding:
    """Check that dropping biases raises the loss of a trained network by more than 0.03 nats.

    The sentence also gives the loss after 50 more steps.
    """
    trainer = _trained(replace(TRAINED, seed=seed, steps=steps))
    converted = convert(trainer.network, "rms", final_norm="rms", calibrate=CALIBRATION)
    losses = {row.name: row.loss for row in converted.measured}
    all_losses = "; ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    before, without = losses["before"], losses["biases dropped"]
    measured = f"{before:.3f} to {without:.3f}"
    return one_seed(without > before + 0.03, measured, f"validation loss in nats: {all_losses}, seed {seed}")
