"""Tests of the example plugin: a template for tests of your own norm and scheme."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from normexp.config import plugins
from normexp.config.run import RunConfig
from normexp.model.network import build
from normexp.schemes import SCHEMES, Site
from normexp.training.loop import train


@pytest.fixture(autouse=True)
def _plugin() -> Iterator[None]:
    with plugins.using(plugins.read(Path(__file__).with_name("l1_norm.py"))):
        yield


TINY = {"depth": 3, "width": 16, "hidden": 16, "vocab": 16, "order": 1, "batch": 16, "norm": "l1", "position": "fading"}


def test_the_norm_divides_by_the_mean_absolute_value() -> None:
    norm = build(RunConfig(**TINY)).blocks["1"].mixer.before
    x = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0)) * 7
    assert torch.allclose(norm(x).abs().mean(-1), torch.ones(2, 3), atol=1e-4)


def test_branches_fade() -> None:
    assert [SCHEMES["fading"].constants(Site(layer, 4))["branch_out"] for layer in (1, 2, 4)] == [1, 0.5, 0.25]


def test_it_learns() -> None:
    training = train(RunConfig(**TINY, steps=60, lr=1e-2))
    assert training.result.death is None
    assert training.result.final_val_loss < training.result.init_val_loss - 0.3


@pytest.mark.parametrize("norm", ["ln", "l1"])
def test_no_logit_sees_a_later_token(norm: str) -> None:
    network = build(RunConfig(**{**TINY, "norm": norm}))
    tokens = torch.zeros(1, 16, dtype=torch.long)
    changed = tokens.clone()
    changed[:, 8:] = 1
    assert torch.equal(network(tokens)[:, :8], network(changed)[:, :8])
