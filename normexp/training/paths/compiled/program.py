"""The program of a network as a table of compiled kernels.

The table of modules that have rows, and how branches are made of them. What has none is lowered to calls of ATen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.model.block import Branch, Constant, Scaling
from normexp.model.branches import LONGEST, Attention, FeedForward, FullWidth, PerToken, RunningMean, UnitLength
from normexp.model.network import Network
from normexp.model.norms import BatchNorm, DyT, LayerNorm, ScaleNorm
from normexp.model.rms_norm import RMSNorm
from normexp.training.paths import nodes
from normexp.training.paths import nodes as attend
from normexp.training.paths.compiled import rows
from normexp.training.paths.compiled.library import load
from normexp.training.paths.compiled.table import Table
from normexp.training.paths.lower import Lowering, learns_all
from normexp.training.paths.program import Program
from normexp.training.paths.tape import Value

LANES = 8
"""Products pay with registers of so many floats; with smaller ones ATen's are faster."""
MOST_FEATURES = 128
"""Of a head in the kernels of attention."""
LARGEST_PRODUCT = 2**16
"""Numbers of a weight up to which its products are faster here than ATen's, whose blocks fit any cache."""


class TableLowering(Lowering):
    """Adds the rows of modules to a table."""

    def __init__(self, table: Table, batch: int, tokens: int) -> None:
        super().__init__(table, batch, tokens)
        self.table = table
        self.own_products = load().functions.lanes() >= LANES

    def module(self, module: nn.Module, x: Value, *shape: int) -> Value:
        """Any module from (n, d) to as many."""
        kind = type(module)
        y = None
        if kind in ROWS and not shape and rows.is_whole(x) and learns_all(module):
            y = ROWS[kind](self.table, module, x)
        elif kind in FUNCTIONS:
            y = FUNCTIONS[kind](self, module, x)
        return super().module(module, x, *shape) if y is None else y

    def linear(self, module: nn.Linear, x: Value) -> Value:
        """A product by the kernels where they are faster."""
        if self.own_products and rows.is_whole(x) and module.weight.numel() <= LARGEST_PRODUCT:
            return rows.linear(self.table, module, x)
        return nodes.linear(self.table, module, x)

    def head_norm(self, module: nn.Module, x: Value, heads: int) -> Value | None:
        """A norm of queries or keys; None where it has no row."""
        if isinstance(module, FullWidth):
            return ROWS[type(module.norm)](self.table, module.norm, x) if type(module.norm) in HEAD_NORMS else None
        kind = type(module)
        return HEAD_NORMS[kind](self.table, module, x, heads) if kind in HEAD_NORMS else None

    def branch(self, branch: Branch, x: Value, block_input: Value) -> Value:
        """The formula of `normexp.schemes.schemes`; the skip comes first, so that the last product adds it."""
        skip = None if branch.skip is None else self.module(branch.skip, x)
        y = x
        for module in (branch.before, branch.branch_in, branch.f, branch.output, branch.branch_out):
            y = self.module(module, y)
        if skip is not None:
            y = rows.add(self.table, skip, y)
        if branch.bottom is not None:
            y = rows.add(self.table, self.module(branch.bottom, block_input), y)
        return self.module(branch.after, y)


def attention(to: TableLowering, module: Attention, x: Value) -> Value | None:
    """Causal attention; None where it is long or wide, or where a norm of queries and keys has no row."""
    width, heads = x.data.shape[1], module.heads
    features = width // heads
    kinds = [type(norm.norm if isinstance(norm, FullWidth) else norm) for norm in (module.q_norm, module.k_norm)]
    if to.tokens > LONGEST or features > MOST_FEATURES or not set(kinds) <= {nn.Identity, *HEAD_NORMS}:
        return None
    stacked = to.linear(module.qkv, x)
    parts = attend.parts(to.tape, stacked, 3)
    normed = [to.module(norm, part) for norm, part in zip(module.qkv_norms, parts, strict=True)]
    q, k = (
        value if isinstance(norm, nn.Identity) else to.head_norm(norm, value, heads)
        for norm, value in ((module.q_norm, normed[0]), (module.k_norm, normed[1]))
    )
    v = normed[2]
    assert q is not None
    assert k is not None
    columns = stacked if [q, k, v] == parts else None
    scale = rows.attention_scale(features, module.scale)
    y = rows.attend(to.table, q, k, v, to.tokens, heads, scale, columns)
    return to.linear(module.out, to.module(module.within, y))


def running_mean(to: TableLowering, module: RunningMean, x: Value) -> Value | None:
    """The mean of the tokens so far, then a matrix."""
    if to.tokens > LONGEST or not x.data.is_contiguous():
        return None
    return to.linear(module.out, to.module(module.within, rows.running_mean(to.table, x, to.tokens)))


def per_token(to: TableLowering, module: PerToken, x: Value) -> Value:
    """A matrix."""
    return to.linear(module.out, to.module(module.within, x))


def feed_forward(to: TableLowering, module: FeedForward, x: Value) -> Value:
    """Matrix, activation, matrix."""
    hidden = to.module(module.activation, to.linear(module.fc1, x))
    return to.linear(module.fc2, to.module(module.within, hidden))


ROWS: Mapping[type[nn.Module], Callable[[Table, Any, Value], Value | None]] = MappingProxyType(
    {
        nn.Identity: rows.same,
        LayerNorm: rows.layer_norm,
        RMSNorm: rows.rms_norm,
        ScaleNorm: rows.scale_norm,
        DyT: rows.dyt,
        BatchNorm: rows.batch_norm,
        nn.GELU: rows.gelu,
        nn.ReLU: rows.relu,
        Constant: rows.constant,
        Scaling: rows.scaling,
    }
)
"""Modules that are one row; one that returns None has none for this input."""
HEAD_NORMS: Mapping[type[nn.Module], Callable[[Table, Any, Value, int], Value]] = MappingProxyType(
    {
        LayerNorm: rows.layer_norm,
        RMSNorm: rows.rms_norm,
        ScaleNorm: rows.scale_norm,
        UnitLength: rows.unit_length,
    }
)
"""Norms that queries and keys have, a head at a time."""
FUNCTIONS: Mapping[type[nn.Module], Callable[[TableLowering, Any, Value], Value | None]] = MappingProxyType(
    {Attention: attention, RunningMean: running_mean, PerToken: per_token, FeedForward: feed_forward}
)
"""The functions of branches, which are several."""


BLOCKS = RunConfig(
    depth=1, width=32, hidden=48, vocab=16, heads=2, seq_len=16, order=1, batch=2, norm="ln", position="subln"
)
"""Whole vectors and blocks."""
ODD = replace(BLOCKS, width=34, hidden=19, vocab=9, seq_len=5, batch=3)
"""Parts of them."""
COMPILED_CHECKED = (
    BLOCKS,
    replace(BLOCKS, norm="rms", position="hybrid", qk_norm="ln", activation="relu", seq_len=20),
    replace(ODD, norm="scale", qk_norm="l2"),
    replace(ODD, norm="dyt", final_norm="rms", position="sandwich", qk_norm="full"),
    replace(ODD, norm="none", position="rezero", mixer="linear"),
    replace(ODD, norm="bn", position="residual_scaled", mixer="mean", pos_embed="none"),
    replace(ODD, norm="none", final_norm="none", position="b2t", qk_norm="rms", mixer="attention"),
)
"""Networks that between them have every row, at sizes that are multiples of a vector and at others."""


class CompiledProgram(Program):
    """As Program, by compiled kernels."""

    tape: Table

    def _begin(self, batch: int, tokens: int) -> TableLowering:
        self.tape = Table()
        self.loss = torch.zeros(1, dtype=torch.float64)
        return TableLowering(self.tape, batch, tokens)

    def _embed(self, network: Network) -> Value:
        return rows.embed(self.tape, network.embedding, network.positions, self.tokens_bt)

    def _counted(self, x: Value) -> Value:
        return rows.counted(self.tape, x, self.tokens_bt.shape[0], self.first)

    def _cross_entropy(self, logits: Value) -> None:
        rows.cross_entropy(self.tape, logits, self.targets_n1, self.loss)

    @property
    def evaluates(self) -> bool:
        """Whether evaluation computes the same as training: every call is a row, and none takes its statistics here."""
        return self.tape.rows_only and "batch_norm" not in self.tape.kernels

    @torch.no_grad()
    def loss_alone(self, batch: Batch) -> float:
        """Loss of the batch, in nats, by the forward calls."""
        self._read(batch)
        for call in self.tape.forward_calls:
            call()
        return self._checked_loss()
