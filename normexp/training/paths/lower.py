"""Lower modules to the nodes of a tape: the table of nodes, and how branches and blocks consist of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import nn

from normexp.model.block import Block, Branch, Constant, Scaling
from normexp.model.branches import LONGEST, Attention, FeedForward, PerToken, RunningMean
from normexp.model.norms import LayerNorm
from normexp.model.rms_norm import RMSNorm
from normexp.training.paths import nodes
from normexp.training.paths.tape import Tape, Value


class Lowering:
    """Adds the nodes of modules to a tape, for `batch` sequences of `tokens` tokens."""

    def __init__(self, tape: Tape, batch: int, tokens: int) -> None:
        self.tape, self.batch, self.tokens = tape, batch, tokens

    def module(self, module: nn.Module, x: Value, *shape: int) -> Value:
        """Lower a module from (n, d) to (n, d). One without a node is called on `shape`, by default (b, t, d)."""
        kind = type(module)
        if kind in NODES and learns_all(module):
            return NODES[kind](self.tape, module, x)
        if kind in FUNCTIONS and (self.tokens <= LONGEST or kind not in LOOKING_BACK):
            return FUNCTIONS[kind](self, module, x)
        return nodes.foreign(self.tape, module, x, *(shape or (self.batch, self.tokens, x.data.shape[-1])))

    def linear(self, module: nn.Linear, x: Value) -> Value:
        """Lower a linear layer."""
        return nodes.linear(self.tape, module, x)

    def block(self, block: Block, x: Value) -> Value:
        """Lower both branches of a block."""
        return self.branch(block.ffn, self.branch(block.mixer, x, x), x)

    def branch(self, branch: Branch, x: Value, block_input: Value) -> Value:
        """Lower a branch, by the formula in `normexp.schemes.schemes`."""
        y = x
        for module in (branch.before, branch.branch_in, branch.f, branch.output, branch.branch_out):
            y = self.module(module, y)
        if branch.skip is not None:
            y = self._sum(self.module(branch.skip, x), y)
        if branch.bottom is not None:
            y = self._sum(self.module(branch.bottom, block_input), y)
        return self.module(branch.after, y)

    def _sum(self, skip: Value, y: Value) -> Value:
        total = nodes.add(self.tape, skip, y)
        self.tape.drop(y)
        return total


def learns_all(module: nn.Module) -> bool:
    """Return whether no parameter is missing or frozen. Modules of plugins may have such parameters."""
    return all(parameter is not None and parameter.requires_grad for parameter in module._parameters.values())


def attention(to: Lowering, module: Attention, x: Value) -> Value:
    """Lower causal attention, with its norms."""
    tape, batch, heads = to.tape, to.batch, module.heads
    stacked = nodes.linear(tape, module.qkv, x)
    if all(isinstance(norm, nn.Identity) for norm in module.qkv_norms):
        q, k, v = nodes.split_heads(tape, stacked, batch, heads, 3)
    else:
        normed = [to.module(*pair) for pair in zip(module.qkv_norms, nodes.parts(tape, stacked, 3), strict=True)]
        q, k, v = (nodes.split_heads(tape, part, batch, heads, 1)[0] for part in normed)
    tape.drop(stacked)
    features = q.data.shape[-1]
    shape = (batch, heads, to.tokens, features)
    q, k = to.module(module.q_norm, q, *shape), to.module(module.k_norm, k, *shape)
    scale = 1 / math.sqrt(features) if module.scale is None else module.scale
    attended = nodes.attend(tape, q, k, v, scale)
    y = nodes.merge_heads(tape, attended, batch, heads)
    tape.drop(attended)
    return nodes.linear(tape, module.out, to.module(module.within, y))


def running_mean(to: Lowering, module: RunningMean, x: Value) -> Value:
    """Lower the mean of all tokens so far, then a matrix."""
    return nodes.linear(to.tape, module.out, to.module(module.within, nodes.running_mean(to.tape, x, to.batch)))


def per_token(to: Lowering, module: PerToken, x: Value) -> Value:
    """Lower a matrix on each token."""
    return nodes.linear(to.tape, module.out, to.module(module.within, x))


def feed_forward(to: Lowering, module: FeedForward, x: Value) -> Value:
    """Lower matrix, activation, matrix."""
    hidden = to.module(module.activation, nodes.linear(to.tape, module.fc1, x))
    return nodes.linear(to.tape, module.fc2, to.module(module.within, hidden))


NODES: Mapping[type[nn.Module], Callable[[Tape, Any, Value], Value]] = MappingProxyType(
    {
        nn.Identity: nodes.same,
        LayerNorm: nodes.layer_norm,
        RMSNorm: nodes.rms_norm,
        nn.GELU: nodes.gelu,
        nn.ReLU: nodes.relu,
        Constant: nodes.constant,
        Scaling: nodes.scaling,
    }
)
"""Modules that are a single node."""
FUNCTIONS: Mapping[type[nn.Module], Callable[[Lowering, Any, Value], Value]] = MappingProxyType(
    {Attention: attention, RunningMean: running_mean, PerToken: per_token, FeedForward: feed_forward}
)
"""Functions of branches, which consist of several nodes."""
LOOKING_BACK = (Attention, RunningMean)
"""Functions that store weights for all pairs of tokens."""
