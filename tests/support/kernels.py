"""Calls of single compiled kernels, and the mark of tests that need a compiler."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from normexp.records.execution_path import ExecutionPath
from normexp.training.paths import choice
from normexp.training.paths.compiled.table import Argument, Row

needs_compiler = pytest.mark.skipif(
    choice.fastest().path is not ExecutionPath.COMPILED, reason=f"no compiled kernels: {choice.fastest().why}"
)


def call(kernel: str, *slots: Argument) -> None:
    Row(kernel, list(slots))()


def numbers(*shape: int, seed: int = 0, size: float = 1.0) -> Tensor:
    """Return normal random numbers times `size`."""
    return size * torch.randn(shape, generator=torch.Generator().manual_seed(seed))
