"""The nodes of a tape: each adds the calls of one operation, and registers how to add those of its gradient.

Mixers are computed by plain matrix products, which suits short sequences.

Axes: b sequences, t tokens, d features, h heads, k features of a head; n is b times t, g is b times h, o output
features.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from normexp.model.block import Constant, Scaling
from normexp.model.rms_norm import RMSNorm
from normexp.training.paths.tape import Tape, Value


def linear(tape: Tape, module: nn.Linear, x: Value) -> Value:
    """Add x W^T + b, (n, d) to (n, o)."""
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
    """Add LayerNorm by torch's kernels, forward and backward."""
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
    """Add RMSNorm, forward and backward as in `normexp.model.rms_norm`."""
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
    """Add GELU: x times the normal distribution function of x."""
    y, inputs = tape.value(*x.data.shape), x.keep()
    options = {"approximate": module.approximate}
    tape.call(torch._C._nn.gelu, inputs, **options, out=y.data)
    gelu_backward = torch.ops.aten.gelu_backward.grad_input

    def backward(grad: Tensor) -> None:
        tape.give_changed(x, grad, lambda part: tape.call(gelu_backward, grad, inputs, **options, grad_input=part))

    tape.backward(y, backward)
    return y


def relu(tape: Tape, module: nn.ReLU, x: Value) -> Value:
    """Add max(x, 0)."""
    y = tape.value(*x.data.shape)
    tape.call(torch.clamp_min, x.data, 0, out=y.data)
    outputs = y.keep()
    threshold_backward = torch.ops.aten.threshold_backward.grad_input

    def backward(grad: Tensor) -> None:
        tape.give_changed(x, grad, lambda part: tape.call(threshold_backward, grad, outputs, 0, grad_input=part))

    tape.backward(y, backward)
    return y


def constant(tape: Tape, module: Constant, x: Value) -> Value:
    """Add a fixed factor."""
    y = tape.value(*x.data.shape)
    tape.call(torch.mul, x.data, module.factor, out=y.data)

    def backward(grad: Tensor) -> None:
        tape.give_changed(x, grad, lambda part: tape.call(torch.mul, grad, module.factor, out=part))

    tape.backward(y, backward)
    return y


def scaling(tape: Tape, module: Scaling, x: Value) -> Value:
    """Add a learned scalar factor."""
    factor, y, inputs = tape.parameter(module.factor), tape.value(*x.data.shape), x.keep()
    tape.call(torch.mul, inputs, factor.data, out=y.data)

    def backward(grad: Tensor) -> None:
        tape.give(factor, lambda part: tape.call(torch.dot, grad.view(-1), inputs.view(-1), out=part))
        tape.give_changed(x, grad, lambda part: tape.call(torch.mul, grad, factor.data, out=part))

    tape.backward(y, backward)
    return y


def add(tape: Tape, a: Value, b: Value) -> Value:
    """Add the sum a + b."""
    y = tape.value(*a.data.shape)
    tape.call(torch.add, a.data, b.data, out=y.data)

    def backward(grad: Tensor) -> None:
        tape.give_same(a, grad)
        tape.give_same(b, grad)

    tape.backward(y, backward)
    return y


def same(tape: Tape, module: nn.Identity, x: Value) -> Value:
    """Add nothing."""
    return x


def foreign(tape: Tape, module: nn.Module, x: Value, *shape: int) -> Value:
    """Add a module without a node: autograd calls it on `shape` and differentiates it."""
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
                scalar = (output * grad.view(shape)).sum()  # given a gradient, torch would import sympy
            sources = [leaf, *learned]
            if scalar.requires_grad:
                source_grads = torch.autograd.grad(scalar, sources, materialize_grads=True)
            else:
                source_grads = tuple(map(torch.zeros_like, sources))
            grads[:] = source_grads[0].reshape(flat), *source_grads[1:]

        tape.call(differentiate)
        for number, value in enumerate(parameters, start=1):
            tape.give_late(value, partial(grads.__getitem__, number))
        tape.give_late(x, partial(grads.__getitem__, 0))

    tape.backward(y, backward)
    return y


def parts(tape: Tape, stacked: Value, count: int) -> list[Value]:
    """Return the column blocks of (n, count d). Their gradients are written side by side into one buffer."""
    n, width = stacked.data.shape
    blocks = stacked.data.view(n, count, -1)

    def target(number: int) -> Tensor:
        if stacked.grad is None:
            stacked.grad = tape.take(n, width)
        return stacked.grad.view(n, count, -1)[:, number]

    return [Value(blocks[:, number], partial(target, number), stacked) for number in range(count)]


def split_heads(tape: Tape, x: Value, batch: int, heads: int, count: int) -> list[Value]:
    """Return the column blocks of (n, count d), each as (g, t, k), with one copy forward and one back."""
    n, width = x.data.shape
    t, k = n // batch, width // (count * heads)
    split, merged = (count, batch, heads, t, k), (batch, t, count, heads, k)
    y = tape.value(*split)
    tape.call(y.data.copy_, x.data.view(merged).permute(2, 0, 3, 1, 4))

    def target(number: int) -> Tensor:
        if y.grad is None:
            y.grad = tape.take(*split)
        return y.grad[number].view(-1, t, k)

    # Gives the same result as a copy of the permuted tensor, in half the time.
    rows = torch.arange(count * batch * heads * t).view(split[:-1]).permute(1, 3, 0, 2).flatten()

    def backward(grad: Tensor) -> None:
        tape.give(x, lambda part: tape.call(torch.index_select, grad.view(-1, k), 0, rows, out=part.view(-1, k)))

    tape.backward(y, backward)
    return [Value(y.data[number].view(-1, t, k), partial(target, number), y) for number in range(count)]


def merge_heads(tape: Tape, x: Value, batch: int, heads: int) -> Value:
    """Merge heads, (g, t, k) to (n, d)."""
    _, t, k = x.data.shape
    y = tape.value(batch * t, heads * k)
    tape.call(y.data.view(batch, t, heads, k).copy_, x.data.view(batch, heads, t, k).transpose(1, 2))

    def backward(grad_nd: Tensor) -> None:
        grad = grad_nd.view(batch, t, heads, k).transpose(1, 2)
        tape.give(x, lambda part: tape.call(part.view(batch, heads, t, k).copy_, grad))

    tape.backward(y, backward)
    return y


def attend(tape: Tape, q: Value, k: Value, v: Value, scale: float) -> Value:
    """Add softmax(scale q k^T + mask) v over (g, t, k), with a causal mask."""
    g, t, _ = q.data.shape
    q_gtk, k_gtk, v_gtk = q.keep(), k.keep(), v.keep()
    mask_tt = torch.full((t, t), float("-inf")).triu(1)
    shares_gtt, y = tape.take(g, t, t), tape.value(*v_gtk.shape)
    logits = tape.take(g, t, t)
    tape.call(torch.baddbmm, mask_tt, q_gtk, k_gtk.transpose(1, 2), alpha=scale, out=logits)
    tape.call(torch.ops.aten._softmax.out, logits, -1, False, out=shares_gtt)
    tape.put(logits)
    tape.call(torch.bmm, shares_gtt, v_gtk, out=y.data)

    def product(out: Tensor, a: Tensor, b: Tensor) -> None:
        tape.call(torch.baddbmm, out, a, b, beta=0, alpha=scale, out=out)

    softmax_backward = torch.ops.aten._softmax_backward_data.out

    def backward(grad_gtk: Tensor) -> None:
        pull = tape.take(g, t, t)
        tape.call(torch.bmm, grad_gtk, v_gtk.transpose(1, 2), out=pull)
        tape.call(softmax_backward, pull, shares_gtt, -1, pull.dtype, grad_input=pull)
        tape.give(v, lambda part: tape.call(torch.bmm, shares_gtt.transpose(1, 2), grad_gtk, out=part))
        tape.give(q, lambda part: product(part, pull, k_gtk))
        tape.give(k, lambda part: product(part, pull.transpose(1, 2), q_gtk))
        tape.put(pull)

    tape.backward(y, backward)
    return y


def running_mean(tape: Tape, x: Value, batch: int) -> Value:
    """Add the mean of all tokens so far, as a product with a triangular matrix."""
    n, d = x.data.shape
    t = n // batch
    weights_tt = torch.ones(t, t).tril() / torch.arange(1, t + 1)[:, None]
    weights_btt, y = weights_tt.expand(batch, t, t), tape.value(n, d)
    tape.call(torch.bmm, weights_btt, x.data.view(batch, t, d), out=y.data.view(batch, t, d))

    def backward(grad_nd: Tensor) -> None:
        grad = grad_nd.view(batch, t, d)
        tape.give(x, lambda part: tape.call(torch.bmm, weights_btt.transpose(1, 2), grad, out=part.view(batch, t, d)))

    tape.backward(y, backward)
    return y
