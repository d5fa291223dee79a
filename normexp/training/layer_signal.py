"""Norms that compute otherwise in training than in evaluation, and look at other tokens: how far they do.

What attention does with its tokens: how widely it looks, and how large its logits are.

The signal inside a network: size of activations and gradients, and what attention does, layer by layer.
"""

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


@torch.no_grad()
def attention_sizes(q_bhtk: Tensor, k_bhtk: Tensor, scale: float | None) -> tuple[float, float]:
    """Mean entropy of the attention weights in nats, and the largest absolute logit of causal attention.

    `scale` is the factor on q · k, None for 1 / sqrt(k). The entropy is a mean over sequences, heads and positions
    from the second on: the first sees itself alone, and its entropy of 0 is left out. Uniform attention over t tokens
    has ln(t!) / (t - 1). The logit is the largest over pairs that are not masked. 16-bit values are widened to
    float32, as attention accumulates them; NaN where a logit is NaN.
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
    """At each forward pass of the module, report entropy and largest logit of the queries and keys that it uses."""
    queries: list[Tensor] = []

    def see_queries(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        queries[:] = [output.detach()]

    def see_keys(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        report(*attention_sizes(queries.pop(), output.detach(), attention.scale))

    return [
        attention.q_norm.register_forward_hook(see_queries),
        attention.k_norm.register_forward_hook(see_keys),
    ]


Sizes = dict[tuple[int, str], float]
"""(layer, part) to a size."""
Signal = dict[str, Sizes]
"""Quantity to the sizes of its layers and parts."""


def rms(values: Tensor) -> float:
    """Root mean square over all elements, in float64."""
    return float64_norm(values.detach()) / math.sqrt(max(1, values.numel()))


def _parts(network: Network) -> Iterator[tuple[int, str, nn.Module]]:
    for layer, block in enumerate(network.blocks.values(), start=1):
        yield layer, "mixer", block.get_submodule("mixer.f")
        yield layer, "ffn", block.get_submodule("ffn.f")
        yield layer, "stream", block
    yield len(network.blocks) + 1, "stream", network.final_norm


@contextmanager
def hooked(handles: list[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks at the end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def activations(network: Network, see: Callable[[int, str, Tensor], None]) -> Iterator[None]:
    """While open, each forward pass shows layer, part and value of the stream after every layer and of every branch.

    Layer 0 is the embedding (token and position), layer depth + 1 the input of the head.
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
    """While open, each forward pass writes the RMS of the stream after every layer and of what each branch computes.

    For mixers that attend, also `attention_entropy` and `max_logit`, as `attention_sizes` defines them.
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
    """Norm of the gradient of each branch's parameters, in float64."""
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
    """Tidy rows of one step, by layer."""
    rows = [
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=value)
        for quantity, sizes in signal.items()
        for (layer, part), value in sizes.items()
    ]
    return sorted(rows, key=lambda row: (row.layer, row.part, row.quantity))


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
