"""The network that a run ended with: from its stored weights, or by training it again.

Everything that can be measured of one network as it stands: its signal, its gradients, and what one update does.

All on the first `batch` sequences of the validation set, in training mode, with norms accumulated in float64. Values
that are not finite are results.
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
"""The rate of `sgd_update`."""

Values = dict[tuple[int, str], Tensor]
"""(layer, part) to the activations (b, t, d)."""


def inspect(config: RunConfig) -> list[SignalRow]:
    """The rows of the config's network at its initial weights; one seed, that of the config."""
    return inspect_trainer(Trainer(config), number=1)


def inspect_trainer(trainer: Trainer, number: int) -> list[SignalRow]:
    """Tidy rows, by layer, of a trainer's network before update `number`; all but its gradients is left as found.

    Layers are 0 (embedding) to depth + 1 (into the head); parts and their quantities:

    - stream, logits: `rms`, `mean_square`; stream: `token_cosine`.
    - stream, logits: `update`, the RMS of their change when the parameters make the config's update `number` with a
      fresh optimizer; `relative_update`, its norm over theirs; `sgd_update`, the RMS of their change when only the
      blocks' matrices make a step of SGD at 1e-2. NaN where there is no step, since a gradient or the optimizer's
      state is not finite.
    - mixer, ffn: `rms` of what the branch computes, `grad_norm` of all its parameters.
    - q, k, v, out, fc1, fc2, embedding, positions, head: `grad_norm` of the matrix.
    - mixer that attends: `attention_entropy` (nats) and `max_logit`.
    - logits, where a norm looks at other tokens: `leak`, `train_mode_loss`, `eval_mode_loss`.
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
    """While open, each forward pass writes the stream after every layer, and the logits."""
    values: Values = {}

    def see(layer: int, part: str, found: Tensor) -> None:
        if part == "stream":
            values[layer, part] = found

    def see_logits(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        values[len(network.blocks) + 1, "logits"] = output.detach()

    with activations(network, see), hooked([network.head.register_forward_hook(see_logits)]):
        yield values


def token_cosine(x_btd: Tensor) -> float:
    """Mean cosine between the vectors of two tokens of a sequence, over sequences and pairs of different positions.

    NaN where a vector is zero or not finite, and where there is no pair.
    """
    unit_btd = _unit(x_btd.detach().double())
    t = x_btd.shape[1]
    all_pairs_b = unit_btd.sum(dim=1).square().sum(dim=-1)
    return float((all_pairs_b - t).mean() / (t * (t - 1))) if t > 1 else math.nan


def _unit(x: Tensor) -> Tensor:
    """x over its length, NaN for a zero vector."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length


def matrix_gradient_sizes(network: Network) -> Sizes:
    """Norm of the gradient of each matrix, by layer and role; the stacked one's is that of q, of k and of v."""
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
    """What the network computes after a step, against `before`; the gradients must be there."""
    sgd = _changes(trainer, lambda: _sgd_step(trainer.network), before)
    own = _changes(trainer, lambda: _own_step(trainer, number), before)
    sizes = {key: rms(values) for key, values in before.items()}
    relative = {key: change / sizes[key] if sizes[key] else math.nan for key, change in own.items()}
    return {"update": own, "relative_update": relative, "sgd_update": sgd}


def _changes(trainer: Trainer, step: Callable[[], bool], before: Values) -> Sizes:
    """RMS of the change that a step makes, by layer and part; NaN where it is not made, or the optimizer overflows."""
    if not math.isfinite(trainer.flat.grad_norm()):
        return dict.fromkeys(before, math.nan)
    parameters = trainer.flat.values.clone()
    made = step()
    with kept_state(trainer.network), _recorded(trainer.network) as after:
        trainer.loss(trainer.signal_batch)
    trainer.flat.values.copy_(parameters)
    if not made:
        return dict.fromkeys(before, math.nan)
    return {key: rms(after[key].double() - values.double()) for key, values in before.items()}


def _own_step(trainer: Trainer, number: int) -> bool:
    used, trainer.optimizer = trainer.optimizer, make_optimizer(trainer.config, trainer.flat)
    finite = trainer.update(rate(number, trainer.config), trainer.flat.grad_norm())
    trainer.optimizer = used
    return all(finite)


def _sgd_step(network: Network) -> bool:
    for parameter in network.blocks.parameters():
        if parameter.dim() >= 2 and parameter.grad is not None:
            parameter.sub_(parameter.grad, alpha=SGD_LR)
    return True


def restore(config: RunConfig, weights: bytes, origin: str) -> Trainer:
    """A trainer with the network of a weights file, which `origin` names in complaints. Raises UserError."""
    _, network = network_from(weights, origin=origin, config=config)
    return Trainer(config, network)


def retrain(config: RunConfig, *, path: ExecutionPath | None = None) -> Trainer:
    """Train the config's network again, without evaluations, to its last step or its death; `path` as Trainer has it.

    The same config gives the same network on the same machine.
    """
    with seeded(config):
        trainer = Trainer(config, path=path)
        batches = trainer.task.batches(config.seed, config.batch)
        for number, batch in enumerate(islice(batches, config.steps), start=1):
            if trainer.step(number, batch).bad is not None:
                break
        return trainer
