"""The calculations of `normexp/texts/`, and replacements for parts of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from normexp.claims.calculations import TEXTS
from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.network import Network
from normexp.schemes.models import load as load_models
from normexp.texts.article import gradients, norms, stream
from normexp.training import conversion as fold

OWN = list(TEXTS["article"])
SPEED = [name for name in OWN if name.startswith("speed.")]
GROWING = ["8.0", "19", "45", "106"]
Made = Callable[[], Finding]
Made1 = Callable[[int], Finding]


def table(**changed: dict[str, str]) -> list[Any]:
    """Return the table of models with changed cells, given by model name with _ for spaces and hyphens."""
    rows = []
    for model in load_models():
        cells = dict(model.cells)
        for cell, text in changed.get(model.model.replace(" ", "_").replace("-", "_"), {}).items():
            cells[cell] = replace(cells[cell], text=text)
        rows.append(replace(model, cells=cells))
    return rows


def layered(calculation: Made1, **rates: float) -> Finding:
    """Run a calculation with gradients that grow exponentially by layer, at a rate by position."""

    def sizes(config: RunConfig, *, skip_alone: bool = False) -> list[float]:
        return [math.exp(rates[config.position] * layer) for layer in range(1, config.depth + 1)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "by_layer", sizes)
        patch.setattr(gradients, "of_stream", sizes)
        return calculation(0)


def streaming(write: float, calculation: Made1) -> Finding:
    """Run a calculation with a stream to which every block adds this share of it."""
    streams = [torch.ones(1, 2, 4) * (1 + write) ** layer for layer in range(13)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "printed_streams", lambda seed: streams)
        return calculation(0)


def reading(calculation: Made1, *rates: float) -> Finding:
    """Run a calculation with a linear probe that has this accuracy by layer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "readable", lambda config: list(rates))
        return calculation(0)


class Signs(nn.Module):
    """A norm that keeps only the sign of what exceeds the mean."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(dim=-1, keepdim=True)).sign()


def with_signs(calculation: Made1) -> Finding:
    """Run a calculation of `norms` with a norm that keeps only signs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norms, "norm", lambda name, width: Signs())
        return calculation(0)


def unchanged(network: Network) -> fold.Converted:
    """Convert nothing."""
    return fold.Converted(method="none", network=network)


def printed_digits(calculation: Callable[[int, Sequence[str]], Finding], count: int) -> list[str]:
    """Return the result for seed 0 with three decimals."""
    return calculation(0, ["0.000"] * count).measured.split(", ")
