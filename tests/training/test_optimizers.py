import copy
import math
from functools import partial

import pytest
import torch
from torch import nn

from normexp.config.run import KEYS, RunConfig
from normexp.training.compiled_optimizers import COMPILED_OPTIMIZERS
from normexp.training.optimizers import OPTIMIZERS, FlatParameters, make_optimizer, rate


def rates(steps: int = 6, **keys: object) -> list[float]:
    config = RunConfig(steps=steps, lr=0.01, **keys)
    return [rate(update, config) for update in range(1, steps + 1)]


def test_warm_up_starts_above_0() -> None:
    assert rates(warmup=4) == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])


def test_warm_ups_of_0_and_1_start_at_the_peak() -> None:
    assert rates(warmup=0) == rates(warmup=1) == [0.01] * 6


@pytest.mark.parametrize("warmup", [19, 20, 21])
def test_a_warm_up_as_long_as_the_training(warmup: int) -> None:
    assert max(rates(20, warmup=warmup)) == pytest.approx(0.01 * min(1, 20 / warmup))


@pytest.mark.parametrize("warmup", [0, 4, 20])
def test_cosine_falls_from_the_peak_and_never_reaches_0(warmup: int) -> None:
    falling = rates(20, warmup=warmup, schedule="cosine")[max(0, warmup - 1) :]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] == pytest.approx(0.01)
    assert falling[-1] > 0


def test_inverse_sqrt_halves_at_four_times_the_warmup() -> None:
    assert rates(40, warmup=10, schedule="inverse_sqrt")[39] == pytest.approx(0.005)
    assert rates(4, schedule="inverse_sqrt")[3] == pytest.approx(0.005)


REFERENCE = {
    "adam": lambda groups: torch.optim.Adam(groups, lr=0.02, betas=(0.8, 0.95), foreach=False),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.02, betas=(0.8, 0.95), foreach=False),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.02, foreach=False),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_flat_update_agrees_with_torch_on_separate_tensors(name: str, weight_decay: float) -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(7, 9), nn.LayerNorm(9), nn.Linear(9, 3))
    theirs = copy.deepcopy(ours)
    flat = FlatParameters(ours)
    config = RunConfig(optimizer=name, lr=0.02, beta1=0.8, beta2=0.95, weight_decay=weight_decay)
    optimizer = make_optimizer(config, flat)
    matrices = [p for p in theirs.parameters() if p.dim() == 2]
    vectors = [p for p in theirs.parameters() if p.dim() == 1]
    reference = REFERENCE[name](
        [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    )
    for _ in range(20):
        x = torch.randn(5, 7)
        flat.grads.zero_()
        reference.zero_grad()
        for network, step in ((ours, partial(optimizer.step, 0.02)), (theirs, reference.step)):
            network(x).square().sum().backward()
            step()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(own, other, rtol=1e-5, atol=1e-6)


class TestFlatParameters:
    def test_values_and_gradients_are_views(self) -> None:
        network = nn.Linear(3, 2)
        expected = torch.cat([network.weight.detach().flatten(), network.bias.detach()])
        flat = FlatParameters(network)
        assert (flat.values == expected).all()
        network(torch.ones(4, 3)).sum().backward()
        assert flat.grads.tolist() == [4.0] * 8
        flat.values.fill_(2.0)
        assert (network.weight == 2.0).all()

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
    def test_a_gradient_norm_is_finite_exactly_if_every_element_is(self, bad: float) -> None:
        flat = FlatParameters(nn.Linear(30, 20))
        flat.grads.fill_(3e38)
        assert flat.grad_norm() == pytest.approx(3e38 * 620**0.5)
        flat.grads[77] = bad
        assert not math.isfinite(flat.grad_norm())

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("others", [0.0, 1.0, 3e38, -3e38])
    def test_parameters_are_finite_exactly_if_every_element_is(self, bad: float, others: float) -> None:
        flat = FlatParameters(nn.Linear(30, 20))
        flat.values.fill_(others)
        assert flat.values_finite()
        flat.values[77] = bad
        assert not flat.values_finite()
        flat.values[78] = -bad
        assert not flat.values_finite()


def test_compiled_optimizers_have_the_same_names() -> None:
    assert list(COMPILED_OPTIMIZERS) == list(OPTIMIZERS) == list(KEYS["optimizer"].choices())
