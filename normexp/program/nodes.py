"""The nodes of a tape: each adds the calls of one operation and says how to add those of its gradient.

Axes: n tokens of all sequences, d features in, o features out.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from normexp.nn.block import Constant, Scaling
from normexp.nn.rmsnorm import RMSNorm
from normexp.program.tape import Tape, Value


def linear(tape: Tape, module: nn.Linear, x: Value) -> Value:
    """x W^T + b, (n, d) to (n, o)."""
    weight, x_nd = tape.parameter(module.weight), x.keep()
    y = tape.value(x_nd.shape[0], module.out_features)
    bias = tape.parameter(module.bias) if module.bias is not None else None
    if bias is None:
        tape.call(torch.mm, x_nd, weight.data.t(), out=y.data)
    else:
        tape.call(torch.addmm, bias.data, x_nd, weight.data.t(), out=y.data)

    def backward(grad_no: Tensor) -> None:
        tape.give(weight, lambda part: tape.call(torch.mm, grad_no.t(), x_nd, out=part))
        if bias is not None:
            tape.give(bias, lambda part: tape.call(torch.sum, grad_no, 0, out=part))
        tape.give(x, lambda part: tape.call(torch.mm, grad_no, weight.data, out=part))

    tape.backward(y, backward)
    return y


def layer_norm(tape: Tape, module: nn.LayerNorm, x: Value) -> Value:
    """LayerNorm by torch's own kernels, forward and backward."""
    weight, bias, shape = tape.parameter(module.weight), tape.parameter(module.bias), module.normalized_shape
    y, inputs = tape.value(*x.data.shape), x.keep()
    inverse = tape.inverse_root(*inputs.shape[:-1], 1)
    mean = torch.zeros_like(inverse)
    outputs = {"out0": y.data, "out1": mean, "out2": inverse}
    kernels = torch.ops.aten
    tape.call(kernels.native_layer_norm.out, inputs, shape, weight.data, bias.data, module.eps, **outputs)

    def backward(grad: Tensor) -> None:
        grads: list[Tensor] = []

        def kernel() -> None:
            grads[:] = kernels.native_layer_norm_backward.default(
                grad, inputs, shape, mean, inverse, weight.data, bias.data, [True, True, True]
            )

        tape.call(kernel)
        for number, value in ((1, weight), (2, bias), (0, x)):
            tape.give_late(value, partial(grads.__getitem__, number))

    tape.backward(y, backward)
    return y


def rms_norm(tape: Tape, module: RMSNorm, x: Value) -> Value:
    """RMSNorm, forward and backward as in `normexp.nn.rmsnorm`."""
    weight, width = tape.parameter(module.weight), x.data.shape[-1]
    y, inputs = tape.value(*x.data.shape), x.keep()
    inverse = tape.inverse_root(*inputs.shape[:-1], 1)
    eps = torch.tensor(module.eps)
    tape.call(torch.linalg.vector_norm, inputs, dim=-1, keepdim=True, out=inverse)
    tape.call(torch.addcmul, eps, inverse, inverse, value=1 / width, out=inverse)
    tape.call(inverse.rsqrt_)
    tape.call(torch.mul, inputs, inverse, out=y.data)
    tape.call(y.data.mul_, weight.data)
    zero = torch.zeros_like(inverse)
    layer_norm_backward = torch.ops.aten.native_layer_norm_backward.default

    def backward(grad: Tensor) -> None:
        grads: list[Tensor] = []
        lost = tape.take(*inverse.shape)

        def kernel() -> None:
            grads[:] = layer_norm_backward(grad, inputs, [width], zero, inverse, weight.data, None, [True, True, False])
            torch.mv(grad.view(-1, width), weight.data, out=lost.view(-1))
            grads[0].add_(lost.mul_(inverse), alpha=1 / width)

        tape.call(kernel)
        for number, value in ((1, weight), (0, x)):
            tape.give_late(value, partial(grads.__getitem__, number))
        tape.put(lost)

    tape.backward(y, backward)
    return y


def gelu(tape: Tape, module: nn.GELU, x: Value) -> Value:
    """x times the normal distribution function of x."""
    y, inputs = tape.value(*x.data.shape), x.keep()
    how = {"approximate": module.approximate}
    tape.call(torch._C._nn.gelu, inputs, **how, out=y.data)
    gelu_backward = torch.ops.aten.gelu_backward.grad_input

    def backward(grad: Tensor) -> None:
        tape.give_changed(x, grad, lambda part: tape.call(gelu_backward, grad, inputs, **how, grad_input=part))

    tape.backward(y, backward)
    return y


def relu(tape: Tape, module: nn.ReLU, x: Value) -> Value:
    """max(x, 0)."""
    y = tape.value(*x.data.shape)
    tape.call(torch.clamp_min, x.data, 0, out=y.data)
    outputs = y.keep()
    threshold_backward = torch.ops.aten.threshold_backward.grad_input

    def backward(grad: Tensor) -> None:
        tape.give_changed(x, grad, lambda part: tape.call(threshold_backward, grad, outputs, 0, grad_input=part))

    tape.backward(y, backward)
    return y


def constant(tape: Tape, module: Constant, x: Value) -> Value:
    """A fixed factor."""
    y = tape.value(*x.data.shape)
    tape.call(torch.mul, x.data, module.factor, out=y.data)

    def backward(grad: Tensor) -> None:
        tape.give_changed(x, grad, lambda part: tape.call(torch.mul, grad, module.factor, out=part))

    tape.backward(y, backward)
    return y


def scaling(tape: Tape, module: Scaling, x: Value) -> Value:
    """A learned scalar factor."""
    factor, y, inputs = tape.parameter(module.factor), tape.value(*x.data.shape), x.keep()
    tape.call(torch.mul, inputs, factor.data, out=y.data)

    def backward(grad: Tensor) -> None:
        tape.give(factor, lambda part: tape.call(torch.dot, grad.view(-1), inputs.view(-1), out=part))
        tape.give_changed(x, grad, lambda part: tape.call(torch.mul, grad, factor.data, out=part))

    tape.backward(y, backward)
    return y


def add(tape: Tape, one: Value, other: Value) -> Value:
    """one + other."""
    y = tape.value(*one.data.shape)
    tape.call(torch.add, one.data, other.data, out=y.data)

    def backward(grad: Tensor) -> None:
        tape.give_same(one, grad)
        tape.give_same(other, grad)

    tape.backward(y, backward)
    return y


def same(tape: Tape, module: nn.Identity, x: Value) -> Value:
    """Nothing at all."""
    return x


def foreign(tape: Tape, module: nn.Module, x: Value, *shape: int) -> Value:
    """A module that has no node here: called on `shape`, and differentiated, by autograd."""
    flat = tuple(x.data.shape)
    y, shape = tape.value(*flat), shape or flat
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    parameters = [tape.parameter(parameter) for parameter in learned]
    inputs, kept = x.keep(), list[Tensor]()

    def forward() -> None:
        with torch.enable_grad():
            leaf = inputs.view(shape).detach().requires_grad_()
            kept[:] = leaf, module(leaf)
        y.data.view(shape).copy_(kept[1].detach())

    tape.call(forward)

    def backward(grad: Tensor) -> None:
        grads: list[Tensor] = []

        def differentiate() -> None:
            leaf, output = kept
            with torch.enable_grad():
                scalar = (output * grad.view(shape)).sum()  # a gradient handed to torch makes it load sympy
            sources = [leaf, *learned]
            if scalar.requires_grad:
                found = torch.autograd.grad(scalar, sources, materialize_grads=True)
            else:
                found = tuple(map(torch.zeros_like, sources))
            grads[:] = found[0].reshape(flat), *found[1:]

        tape.call(differentiate)
        for number, value in enumerate(parameters, start=1):
            tape.give_late(value, partial(grads.__getitem__, number))
        tape.give_late(x, partial(grads.__getitem__, 0))

    tape.backward(y, backward)
    return y
