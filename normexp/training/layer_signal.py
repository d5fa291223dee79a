"""The signal inside a network, layer by layer: sizes of activations and gradients, attention, and batch statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from normexp.config.conditions import norms_in_use
from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.model.branches import Attention
from normexp.model.network import Network
from normexp.model.precision import logits
from normexp.records.record import SignalRow
from normexp.schemes.norms import NORMS
from normexp.training.optimizers import float64_norm
from normexp.training.trainer import Trainer, kept_state

Sizes = dict[tuple[int, str], float]
"""Sizes by (layer, part)."""
Signal = dict[str, Sizes]
"""Sizes of all layers and parts, by quantity."""


@torch.no_grad()
def attention_sizes(q_bhtk: Tensor, k_bhtk: Tensor, scale: float | None) -> tuple[float, float]:
    """Return the mean entropy of the attention weights in nats, and the largest absolute logit of causal attention.

    `scale` is the factor on q · k, None for 1 / sqrt(k). The entropy is a mean over sequences, heads and positions from
    the second on; the first token only sees itself, so its entropy is 0. Uniform attention over t tokens gives
    ln(t!) / (t - 1). The largest logit is over unmasked pairs. 16-bit values are widened to float32, as attention
    accumulates them. Both are NaN if a logit is NaN.
    """
    factor = 1 / math.sqrt(q_bhtk.shape[-1]) if scale is None else scale
    wide = torch.promote_types(q_bhtk.dtype, torch.float32)
    logits_bhts = q_bhtk.to(wide) @ k_bhtk.to(wide).transpose(-1, -2) * factor
    t = logits_bhts.shape[-1]
    masked_ts = torch.ones(t, t, dtype=torch.bool).triu(1)
    largest = float(logits_bhts.masked_fill(masked_ts, 0.0).abs().max())
    weights_bhts = logits_bhts.masked_fill_(masked_ts, -math.inf).softmax(dim=-1)[..., 1:, :]
    entropy_bht = torch.special.entr(weights_bhts).sum(dim=-1, dtype=torch.float64)
    return float(entropy_bht.mean()) if t > 1 else 0.0, largest


def watch_attention(attention: Attention, report: Callable[[float, float], None]) -> list[RemovableHandle]:
    """Add hooks that report entropy and largest logit of the queries and keys at each forward pass of the module."""
    queries: list[Tensor] = []

    def see_queries(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        queries[:] = [output.detach()]

    def see_keys(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        report(*attention_sizes(queries.pop(), output.detach(), attention.scale))

    return [
        attention.q_norm.register_forward_hook(see_queries),
        attention.k_norm.register_forward_hook(see_keys),
    ]


def rms(values: Tensor) -> float:
    """Return the root mean square over all elements, in float64."""
    return float64_norm(values.detach()) / math.sqrt(max(1, values.numel()))


def _parts(network: Network) -> Iterator[tuple[int, str, nn.Module]]:
    for layer, block in enumerate(network.blocks.values(), start=1):
        yield layer, "mixer", block.get_submodule("mixer.f")
        yield layer, "ffn", block.get_submodule("ffn.f")
        yield layer, "stream", block
    yield len(network.blocks) + 1, "stream", network.final_norm


@contextmanager
def hooked(handles: list[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks on exit."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def activations(network: Network, see: Callable[[int, str, Tensor], None]) -> Iterator[None]:
    """Call `see` in each forward pass while open, with the residual stream after every layer and every branch output.

    Its arguments are layer, part and value. Layer 0 is the embedding (token and position), layer depth + 1 the input of
    the LM head.
    """

    def see_output(layer: int, part: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        see(layer, part, output.detach())

    def see_input(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        see(0, "stream", inputs[0].detach())

    parts = list(_parts(network))
    first = next(module for _, part, module in parts if part == "stream")
    handles = [first.register_forward_pre_hook(see_input)]
    handles += [module.register_forward_hook(partial(see_output, layer, part)) for layer, part, module in parts]
    with hooked(handles):
        yield


@contextmanager
def forward_signal(network: Network) -> Iterator[Signal]:
    """Yield a signal that each forward pass fills with the RMS of the residual stream and of every branch output.

    Attention layers also get `attention_entropy` and `max_logit`, as defined by `attention_sizes`.
    """
    sizes: Sizes = {}
    signal: Signal = {"rms": sizes}

    def see(layer: int, part: str, values: Tensor) -> None:
        sizes[layer, part] = rms(values)

    def see_attention(layer: int, entropy: float, largest: float) -> None:
        signal.setdefault("attention_entropy", {})[layer, "mixer"] = entropy
        signal.setdefault("max_logit", {})[layer, "mixer"] = largest

    handles = [
        handle
        for layer, part, module in _parts(network)
        if part == "mixer" and isinstance(module, Attention)
        for handle in watch_attention(module, partial(see_attention, layer))
    ]
    with activations(network, see), hooked(handles):
        yield signal


def gradient_sizes(network: Network) -> Sizes:
    """Return the gradient norm of the parameters of each branch, in float64."""
    sizes: Sizes = {}
    for layer, block in enumerate(network.blocks.values(), start=1):
        for part in ("mixer", "ffn"):
            grads = [
                parameter.grad for parameter in block.get_submodule(part).parameters() if parameter.grad is not None
            ]
            norms = [torch.linalg.vector_norm(grad, dtype=torch.float64) for grad in grads]
            sizes[(layer, part)] = float(torch.linalg.vector_norm(torch.stack(norms)))
    return sizes


def signal_rows(step: int, signal: Mapping[str, Sizes]) -> list[SignalRow]:
    """Return the signal of one step as tidy rows, sorted by layer."""
    rows = [
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=value)
        for quantity, sizes in signal.items()
        for (layer, part), value in sizes.items()
    ]
    return sorted(rows, key=lambda row: (row.layer, row.part, row.quantity))


def looks_at_others(run: RunConfig) -> bool:
    """Return whether a norm in use makes the output at a token depend on other tokens."""
    return not all(NORMS[name].causal for name in norms_in_use(run))


@torch.no_grad()
def mode_signal(trainer: Trainer, batch: Batch) -> Signal:
    """Measure the effect of batch statistics on the logits of a batch; empty if no norm depends on other tokens.

    `leak` is the largest change of a logit before the middle position, in training mode, when all tokens from the
    middle on are changed. `train_mode_loss` and `eval_mode_loss` are the loss of the batch (nats) with its batch
    statistics and with running statistics. The network is left unchanged, in training mode.
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
        values = {"eval_mode_loss": trainer.loss(batch).item()}
        network.train()
    with kept_state(network):
        values |= {"train_mode_loss": trainer.loss(batch).item()}
    values |= {"leak": float((early(changed_bt) - early(tokens_bt)).abs().max())}
    return {quantity: {(run.depth + 1, "logits"): value} for quantity, value in values.items()}
