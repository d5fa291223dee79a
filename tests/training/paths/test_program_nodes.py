"""Each node alone: its backward calls are the derivative of its forward calls, and its values are its module's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from programs import Poisoned, in_float64
from torch import Tensor, nn

from normexp.model.block import Constant, Scaling
from normexp.model.norms import BatchNorm, DyT
from normexp.model.rms_norm import RMSNorm
from normexp.training.paths import nodes
from normexp.training.paths.tape import Tape, Value

Build = Callable[..., Value]
N, D, T, BATCH, HEADS = 6, 4, 3, 2, 2


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with in_float64():
        yield


class OnTape(torch.autograd.Function):
    """A piece of a tape as a differentiable function of its inputs and the parameters of a module."""

    @staticmethod
    def forward(ctx: Any, build: Build, module: nn.Module, *inputs: Tensor) -> Tensor:
        ctx.parameters = list(module.parameters())
        for parameter in ctx.parameters:
            parameter.grad = torch.zeros_like(parameter)
        ctx.grads = [parameter.grad for parameter in ctx.parameters]
        count = len(inputs) - len(ctx.parameters)
        ctx.tape, ctx.values = Poisoned(), [Value(x.detach().clone()) for x in inputs[:count]]
        output = build(ctx.tape, *ctx.values)
        ctx.tape.run()
        result, ctx.upstream = output.data.clone(), torch.zeros_like(output.data)
        output.grad = ctx.tape.take(*output.data.shape)
        ctx.tape.call(output.grad.copy_, ctx.upstream)
        ctx.tape.finish()
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ctx.upstream.copy_(grads[0])
        ctx.tape.run()
        return None, None, *(value.grad.clone() for value in ctx.values), *(grad.clone() for grad in ctx.grads)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def check(build: Build, module: nn.Module, *inputs: Tensor) -> None:
    """Compare the backward calls with finite differences, twice, since a second pass finds used buffers."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.add_(0.3 * numbers(*parameter.shape, seed=10 + number))
    every = (*inputs, *module.parameters())
    assert torch.autograd.gradcheck(lambda *tensors: OnTape.apply(build, module, *tensors), every)


MODULES: dict[str, tuple[Callable[..., Value], Callable[[], nn.Module]]] = {
    "linear": (nodes.linear, lambda: nn.Linear(D, 3)),
    "linear without bias": (nodes.linear, lambda: nn.Linear(D, 3, bias=False)),
    "layer_norm": (nodes.layer_norm, lambda: nn.LayerNorm(D, eps=0.01)),
    "rms_norm": (nodes.rms_norm, lambda: RMSNorm(D, eps=0.01)),
    "gelu": (nodes.gelu, nn.GELU),
    "gelu by tanh": (nodes.gelu, lambda: nn.GELU("tanh")),
    "relu": (nodes.relu, nn.ReLU),
    "constant": (nodes.constant, lambda: Constant(0.7)),
    "scaling": (nodes.scaling, lambda: Scaling(1.3)),
    "same": (nodes.same, nn.Identity),
    "foreign": (nodes.foreign, lambda: DyT(D, 0.5)),
    "foreign across tokens": (nodes.foreign, lambda: BatchNorm(D, eps=0.01)),
}


@pytest.mark.parametrize("name", MODULES)
class TestModules:
    def test_the_gradient_is_the_derivative(self, name: str) -> None:
        node, make = MODULES[name]
        module = make()
        check(lambda tape, x: node(tape, module, x), module, numbers(N, D))

    def test_the_gradient_of_a_sum_with_its_input_is_correct(self, name: str) -> None:
        """Both terms share the gradient of the sum, so a node that overwrites it would corrupt the other's."""
        node, make = MODULES[name]
        module = make()
        if name.startswith("linear"):
            module = nn.Linear(D, D, bias=module.bias is not None)

        def build(tape: Tape, x: Value) -> Value:
            middle = nodes.constant(tape, Constant(0.9), x)
            return nodes.add(tape, middle, node(tape, module, node(tape, module, middle)))

        check(build, module, numbers(N, D))

    def test_its_values_agree_with_the_module(self, name: str) -> None:
        node, make = MODULES[name]
        module, x = make(), numbers(N, D).detach()
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        tape = Poisoned()
        y = node(tape, module, Value(x))
        tape.run()
        assert torch.allclose(y.data, module(x), rtol=1e-13)


def _attend(tape: Tape, *inputs: Value) -> Value:
    return nodes.attend(tape, *inputs, 0.6)


def _stacked(tape: Tape, x: Value) -> Value:
    q, k, v = nodes.split_heads(tape, x, BATCH, HEADS, 3)
    return nodes.merge_heads(tape, nodes.attend(tape, q, k, v, 0.6), BATCH, HEADS)


def _by_parts(tape: Tape, x: Value) -> Value:
    """Split with a node on each part, like norms."""
    parts = (nodes.constant(tape, Constant(1.0), part) for part in nodes.parts(tape, x, 3))
    q, k, v = (nodes.split_heads(tape, part, BATCH, HEADS, 1)[0] for part in parts)
    return nodes.merge_heads(tape, nodes.attend(tape, q, k, v, 0.6), BATCH, HEADS)


def _changed_heads(tape: Tape, x: Value) -> Value:
    """Apply element-wise nodes to the queries, whose gradient is a part of a buffer."""
    q, k, v = nodes.split_heads(tape, x, BATCH, HEADS, 3)
    q = nodes.constant(tape, Constant(0.8), nodes.constant(tape, Constant(1.7), q))
    return nodes.merge_heads(tape, nodes.attend(tape, q, k, v, 0.6), BATCH, HEADS)


PIECES: dict[str, tuple[Build, Sequence[tuple[int, ...]]]] = {
    "add": (nodes.add, [(N, D), (N, D)]),
    "add to itself": (lambda tape, x: nodes.add(tape, x, x), [(N, D)]),
    "attend": (_attend, [(3, T, 2)] * 3),
    "split, attend, merge": (_stacked, [(N, 3 * D)]),
    "parts, split, attend, merge": (_by_parts, [(N, 3 * D)]),
    "split, change, attend, merge": (_changed_heads, [(N, 3 * D)]),
    "running_mean": (lambda tape, x: nodes.running_mean(tape, x, BATCH), [(N, D)]),
}


@pytest.mark.parametrize("name", PIECES)
def test_the_gradient_of_a_piece_is_the_derivative(name: str) -> None:
    build, shapes = PIECES[name]
    check(build, nn.Identity(), *(numbers(*shape, seed=number) for number, shape in enumerate(shapes)))


def test_attention_agrees_with_torch() -> None:
    q, k, v = (numbers(3, T, 2, seed=seed).detach() for seed in range(3))
    tape = Poisoned()
    y = nodes.attend(tape, Value(q), Value(k), Value(v), 0.6)
    tape.run()
    expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.6)
    assert torch.allclose(y.data, expected, rtol=1e-13)


@pytest.mark.parametrize("build", [_stacked, _by_parts])
def test_split_heads_agree_with_the_network(build: Build) -> None:
    stacked = numbers(N, 3 * D).detach()
    tape = Poisoned()
    y = build(tape, Value(stacked))
    tape.run()
    q, k, v = (part.view(BATCH, T, HEADS, -1).transpose(1, 2) for part in stacked.chunk(3, dim=-1))
    expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.6)
    assert torch.allclose(y.data, expected.transpose(1, 2).reshape(N, D), rtol=1e-13)


def test_the_running_mean_agrees_with_the_network() -> None:
    x = numbers(N, D).detach()
    tape = Poisoned()
    y = nodes.running_mean(tape, Value(x), BATCH)
    tape.run()
    expected = x.view(BATCH, T, D).cumsum(1) / torch.arange(1, T + 1)[:, None]
    assert torch.allclose(y.data, expected.view(N, D), rtol=1e-13)
