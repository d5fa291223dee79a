"""The program of a network as a table of compiled kernels."""

from __future__ import annotations

import torch
from torch import nn

from normexp.nn.network import Network
from normexp.nn.norms import BatchNorm
from normexp.program.compiled import rows
from normexp.program.compiled.lower import TableLowering
from normexp.program.compiled.table import Table
from normexp.program.program import Program
from normexp.program.tape import Value
from normexp.tasks import Batch


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

    @torch.no_grad()
    def loss_alone(self, batch: Batch) -> float:
        """Loss of the batch, in nats, by the forward calls."""
        self._read(batch)
        for call in self.tape.forward_calls:
            call()
        return self.loss.item()


def trains_as_it_evaluates(network: nn.Module) -> bool:
    """Whether the network computes the same in both modes, as far as its kinds of modules tell."""
    return not any(isinstance(module, BatchNorm) for module in network.modules())
