"""Measurements of one network: its signal, its gradients and the effect of one update.

The network is freshly initialized, loaded from stored weights or trained again. Measurements use the first `batch`
sequences of the validation set in training mode, and accumulate magnitudes in float64. Non-finite values are results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.network import Network, layer_of
from normexp.records.execution_path import ExecutionPath
from normexp.records.record import SignalRow
from normexp.training.layer_signal import (
    Signal,
    Sizes,
    activations,
    forward_signal,
    gradient_sizes,
    hooked,
    mode_signal,
    rms,
    signal_rows,
)
from normexp.training.optimizers import float64_norm, make_optimizer, rate
from normexp.training.trainer import Trainer, kept_state, seeded
from normexp.training.weights import network_from

SGD_LR = 1e-2
"""Learning rate of `sgd_update`."""

Values = dict[tuple[int, str], Tensor]
"""Activations (b, t, d) by (layer, part)."""


def inspect(config: RunConfig) -> list[SignalRow]:
    """Return the measurements of the config's network at its initial weights."""
    return inspect_trainer(Trainer(config), number=1)


def inspect_trainer(trainer: Trainer, number: int) -> list[SignalRow]:
    """Measure a trainer's network before update `number`. Only its gradients change.

    Layers go from 0 (embedding) to depth + 1 (input of the LM head). Parts and their quantities:

    - stream, logits: `rms`, `mean_square`; stream: `token_cosine`.
    - stream, logits: `update`, the RMS of their change when the parameters make the config's update `number` with a
      fresh optimizer; `relative_update`, the same relative to their RMS; `sgd_update`, the RMS of their change when
      only the matrices of the blocks make an SGD step with learning rate 1e-2. NaN if there is no step because a
      gradient or the optimizer state is not finite.
    - mixer, ffn: `rms` of the branch output before it is added, `grad_norm` of all its parameters.
    - q, k, v, out, fc1, fc2, embedding, positions, head: `grad_norm` of the matrix.
    - mixer with attention: `attention_entropy` (nats) and `max_logit`.
    - logits, with a norm that sees other tokens: `leak`, `train_mode_loss`, `eval_mode_loss`.
    """
    with seeded(trainer.config):
        return _rows(trainer, number)


def _rows(trainer: Trainer, number: int) -> list[SignalRow]:
    network, batch = trainer.network, trainer.signal_batch
    with kept_state(network), _recorded(network) as before, forward_signal(network) as signal:
        trainer.backward(batch)
        signal |= {"mean_square": {}, "token_cosine": {}}
        for (layer, part), values in before.items():
            signal["rms"][layer, part] = rms(values)
            signal["mean_square"][layer, part] = rms(values) ** 2
            if part == "stream":
                signal["token_cosine"][layer, part] = token_cosine(values)
    signal["grad_norm"] = gradient_sizes(network) | matrix_gradient_sizes(network)
    signal |= mode_signal(trainer, batch)
    signal |= _update_signal(trainer, number, before)
    return signal_rows(0, signal)


@contextmanager
def _recorded(network: Network) -> Iterator[Values]:
    """Yield a dict that each forward pass fills with the residual stream after every layer, and the logits."""
    values: Values = {}

    def see(layer: int, part: str, activation: Tensor) -> None:
        if part == "stream":
            values[layer, part] = activation

    def see_logits(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        values[len(network.blocks) + 1, "logits"] = output.detach()

    with activations(network, see), hooked([network.head.register_forward_hook(see_logits)]):
        yield values


def token_cosine(x_btd: Tensor) -> float:
    """Return the mean cosine between two tokens of a sequence, over sequences and pairs of different positions.

    It is NaN if a vector is zero or not finite, and if there is no pair.
    """
    unit_btd = _unit(x_btd.detach().double())
    t = x_btd.shape[1]
    all_pairs_b = unit_btd.sum(dim=1).square().sum(dim=-1)
    return float((all_pairs_b - t).mean() / (t * (t - 1))) if t > 1 else math.nan


def _unit(x: Tensor) -> Tensor:
    """Return x divided by its magnitude, NaN for a zero vector."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length


def matrix_gradient_sizes(network: Network) -> Sizes:
    """Return the gradient norm of each matrix by layer and role, separately for q, k and v of the stacked matrix."""
    sizes: Sizes = {}
    for name, parameter in network.named_parameters():
        module = name.removesuffix(".weight").rpartition(".")[2]
        if parameter.dim() < 2 or parameter.grad is None:
            continue
        roles = ("q", "k", "v") if module == "qkv" else (module,)
        for role, grad in zip(roles, parameter.grad.chunk(len(roles)), strict=True):
            sizes[layer_of(name, len(network.blocks)), role] = float64_norm(grad)
    return sizes


@torch.no_grad()
def _update_signal(trainer: Trainer, number: int, before: Values) -> Signal:
    """Return how the activations change from `before` by one step. The gradients must be present."""
    sgd = _changes(trainer, lambda: _sgd_step(trainer.network), before)
    full = _changes(trainer, lambda: _full_step(trainer, number), before)
    sizes = {key: rms(values) for key, values in before.items()}
    relative = {key: change / sizes[key] if sizes[key] else math.nan for key, change in full.items()}
    return {"update": full, "relative_update": relative, "sgd_update": sgd}


def _changes(trainer: Trainer, step: Callable[[], bool], before: Values) -> Sizes:
    """Return the RMS of the change by a step, by layer and part; NaN if the step is not possible or overflows."""
    if not math.isfinite(trainer.flat.grad_norm()):
        return dict.fromkeys(before, math.nan)
    parameters = trainer.flat.values.clone()
    stepped = step()
    with kept_state(trainer.network), _recorded(trainer.network) as after:
        trainer.loss(trainer.signal_batch)
    trainer.flat.values.copy_(parameters)
    if not stepped:
        return dict.fromkeys(before, math.nan)
    return {key: rms(after[key].double() - values.double()) for key, values in before.items()}


def _full_step(trainer: Trainer, number: int) -> bool:
    original, trainer.optimizer = trainer.optimizer, make_optimizer(trainer.config, trainer.flat)
    finite = trainer.update(rate(number, trainer.config), trainer.flat.grad_norm())
    trainer.optimizer = original
    return all(finite)


def _sgd_step(network: Network) -> bool:
    for parameter in network.blocks.parameters():
        if parameter.dim() >= 2 and parameter.grad is not None:
            parameter.sub_(parameter.grad, alpha=SGD_LR)
    return True


def restore(config: RunConfig, weights: bytes, origin: str) -> Trainer:
    """Return a trainer with the network of a weights file. `origin` names the file in messages. Raises UserError."""
    _, network = network_from(weights, origin=origin, config=config)
    return Trainer(config, network)


def retrain(config: RunConfig, *, path: ExecutionPath | None = None) -> Trainer:
    """Repeat the training of the config, without evaluations, to its last step or until it becomes non-finite.

    The same config gives the same network on the same machine. `path` is as in Trainer.
    """
    with seeded(config):
        trainer = Trainer(config, path=path)
        batches = trainer.task.batches(config.seed, config.batch)
        for number, batch in enumerate(islice(batches, config.steps), start=1):
            if trainer.step(number, batch).bad is not None:
                break
        return trainer
