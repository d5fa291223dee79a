"""Norms that compute otherwise in training than in evaluation, and look at other tokens: how far they do."""

from __future__ import annotations

import torch
from torch import Tensor

from normexp.matters import norms_in_use
from normexp.nn.precision import logits
from normexp.norms import NORMS
from normexp.run import RunConfig
from normexp.tasks import Batch
from normexp.training.signal import Signal
from normexp.training.state import kept_state
from normexp.training.trainer import Trainer


def looks_at_others(run: RunConfig) -> bool:
    """Whether a norm in use makes a token's output depend on other tokens."""
    return not all(NORMS[name].causal for name in norms_in_use(run))


@torch.no_grad()
def mode_signal(trainer: Trainer, batch: Batch) -> Signal:
    """What batch statistics do to the logits, on one batch; empty where every norm keeps to its token.

    `leak`: in training mode, the largest change of a logit at positions before the middle when all tokens from the
    middle on are changed. `train_mode_loss`, `eval_mode_loss`: the batch's loss (nats) with its own statistics, and
    with the running ones. The network is left as it was, in training mode.
    """
    network, run = trainer.network, trainer.config
    if not looks_at_others(run):
        return {}
    tokens_bt = torch.from_numpy(batch.inputs_nt)
    middle = tokens_bt.shape[1] // 2
    changed_bt = tokens_bt.clone()
    changed_bt[:, middle:] = (changed_bt[:, middle:] + 1) % run.vocab

    def early(tokens_bt: Tensor) -> Tensor:
        with kept_state(network):
            return logits(network, tokens_bt, run)[:, :middle]

    with kept_state(network):
        network.eval()
        found = {"eval_mode_loss": trainer.loss(batch).item()}
        network.train()
    with kept_state(network):
        found |= {"train_mode_loss": trainer.loss(batch).item()}
    found |= {"leak": float((early(changed_bt) - early(tokens_bt)).abs().max())}
    return {quantity: {(run.depth + 1, "logits"): value} for quantity, value in found.items()}
