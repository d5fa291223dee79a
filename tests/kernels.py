"""Compiled kernels called one by one, and who may test them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from normexp.paths import ExecutionPath
from normexp.program import paths
from normexp.program.compiled.table import Argument, Row

needs_compiler = pytest.mark.skipif(
    paths.fastest().path is not ExecutionPath.COMPILED, reason=f"no compiled kernels: {paths.fastest().why}"
)


def call(kernel: str, *slots: Argument) -> None:
    """Call one kernel."""
    Row(kernel, list(slots))()


def numbers(*shape: int, seed: int = 0, size: float = 1.0) -> Tensor:
    """Normal random numbers."""
    return size * torch.randn(shape, generator=torch.Generator().manual_seed(seed))
