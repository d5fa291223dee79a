"""The program of a network as a table of compiled kernels."""

from __future__ import annotations

from dataclasses import replace

import torch

from normexp.nn.network import Network
from normexp.program.compiled import ends
from normexp.program.compiled.lower import TableLowering
from normexp.program.compiled.table import Table
from normexp.program.program import Program
from normexp.program.tape import Value
from normexp.run import RunConfig
from normexp.tasks import Batch

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
        return ends.embed(self.tape, network.embedding, network.positions, self.tokens_bt)

    def _counted(self, x: Value) -> Value:
        return ends.counted(self.tape, x, self.tokens_bt.shape[0], self.first)

    def _cross_entropy(self, logits: Value) -> None:
        ends.cross_entropy(self.tape, logits, self.targets_n1, self.loss)

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
