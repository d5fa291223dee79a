"""The rows of both ends of a network: embeddings, the tokens whose targets count, the loss.

The rows of modules, as in `training.paths.nodes`: one row of a compiled kernel forward, and one or a few backward.

Axes: n tokens of all sequences, d features in, o features out, t tokens of a sequence, h heads, k features of a head.
A value may be a block of columns of a wider buffer: its rows then lie further apart than they are long.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from normexp.model.block import Constant, Scaling
from normexp.model.branches import UnitLength
from normexp.model.norms import BatchNorm, DyT, ScaleNorm
from normexp.model.rms_norm import RMSNorm
from normexp.training.paths.compiled.table import Argument, Row, Table
from normexp.training.paths.tape import Value

BLOCK = 16
"""Tokens and features of a block of attention."""


class Made(Value):
    """A value that a product wrote: `row` can add a buffer to it, and its reader may write the gradient of `bias`."""

    row: Row | None = None
    bias: Value | None = None


def _stride(x: Tensor) -> int:
    return x.stride(0)


def linear(table: Table, module: nn.Linear, x: Value) -> Value:
    """x W^T + b, (n, d) to (n, o)."""
    weight, x_nd = table.parameter(module.weight), x.keep()
    bias = table.parameter(module.bias) if module.bias is not None else None
    (n, narrow), wide = x_nd.shape, module.out_features
    y, transposed = Made(table.take(n, wide)), table.take(narrow, wide)
    table.row("transposed", weight.data, transposed, wide, narrow)
    added = None if bias is None else bias.data
    y.row = table.row("product", n, y.data, x_nd, transposed, added, None, wide, narrow, wide, wide, _stride(x_nd), 1)
    y.bias = bias
    table.put(transposed)

    def backward(grad_no: Tensor) -> None:
        def into_weight(part: Tensor) -> None:
            table.row("product", wide, part, grad_no, x_nd, None, None, narrow, n, narrow, _stride(x_nd), 1, wide)

        def into_x(part: Tensor, skip: Tensor | None) -> None:
            ld = _stride(part)
            table.row("product", n, part, grad_no, weight.data, None, skip, narrow, wide, ld, narrow, wide, 1)

        table.give(weight, into_weight)
        if y.bias is not None:
            table.give(y.bias, lambda part: table.row("column_sums", n, wide, grad_no, part))
        table.give_added(x, into_x)

    table.backward(y, backward)
    return y


def _bias_sums(x: Value) -> Tensor | None:
    """Where to write the sums over tokens of the gradient of x; None unless x is a product with a bias."""
    bias = x.bias if isinstance(x, Made) else None
    if bias is None or bias.grad is not None or bias.target is None:
        return None
    assert isinstance(x, Made)
    x.bias, bias.grad = None, bias.target()
    return bias.grad


def add(table: Table, skip: Value, y: Value) -> Value:
    """skip + y, made by the product that y comes from, if it does."""
    total: Value
    if (
        isinstance(y, Made)
        and y.row is not None
        and y.row.slots[5] is None
        and not y.kept
        and skip.data.is_contiguous()
    ):
        y.row.slots[5] = skip.data
        total = Value(y.data)
    else:
        total = table.value(*y.data.shape)
        table.row("scaled", y.data.numel(), y.data, skip.data, total.data, 1.0)
        table.drop(y)

    def backward(grad: Tensor) -> None:
        table.give_same(skip, grad)
        table.give_same(y, grad)

    table.backward(total, backward)
    return total


def _norm(
    table: Table, kernel: str, x: Value, gain: nn.Parameter | None, bias: nn.Parameter | None,
    *, eps: float, divisor: float, groups: int,
) -> Value:  # fmt: skip
    """A norm of each row, or of each of `groups` parts of it."""
    x_nd = x.keep()
    n, width = x_nd.shape
    d = width // groups
    y, inverse = table.value(n, width), table.take(n * groups)
    mean = None if bias is None else table.take(n * groups)
    w, b = (None if p is None else table.parameter(p) for p in (gain, bias))
    w_data, b_data = (None if p is None else p.data for p in (w, b))
    table.row(
        kernel,
        n,
        groups,
        d,
        x_nd,
        _stride(x_nd),
        y.data,
        width,
        w_data,
        b_data,
        mean,
        inverse,
        float(eps),
        float(divisor),
    )

    def backward(grad_nd: Tensor) -> None:
        learned = [p for p in (w, b) if p is not None]

        def into_learned(parts: list[Tensor]) -> None:
            gw, gb = (parts.pop(0) if p is not None else None for p in (w, b))

            def into_x(part: Tensor, skip: Tensor | None) -> None:
                table.row(
                    f"{kernel}_back", n, groups, d, grad_nd, _stride(grad_nd), x_nd, _stride(x_nd), w_data, mean,
                    inverse, skip, part, _stride(part), gw, gb, float(divisor),
                )  # fmt: skip

            table.give_added(x, into_x)

        table.give_together(learned, into_learned)

    table.backward(y, backward)
    return y


def layer_norm(table: Table, module: nn.LayerNorm, x: Value, groups: int = 1) -> Value:
    """(x - mean) / sqrt(var + eps), times a gain, plus a bias."""
    d = x.data.shape[1] // groups
    return _norm(table, "layer_norm", x, module.weight, module.bias, eps=module.eps, divisor=d, groups=groups)


def rms_norm(table: Table, module: RMSNorm, x: Value, groups: int = 1) -> Value:
    """x / sqrt(mean(x^2) + eps), times a gain."""
    d = x.data.shape[1] // groups
    return _norm(table, "rms_norm", x, module.weight, None, eps=module.eps, divisor=d, groups=groups)


def scale_norm(table: Table, module: ScaleNorm, x: Value, groups: int = 1) -> Value:
    """x / sqrt(|x|^2 + floor), times one gain."""
    return _norm(table, "scale_norm", x, module.gain, None, eps=module.floor, divisor=1, groups=groups)


def unit_length(table: Table, module: UnitLength, x: Value, groups: int = 1) -> Value:
    """The same, with one gain or none."""
    kernel = "unit_length" if module.gain is None else "scale_norm"
    return _norm(table, kernel, x, module.gain, None, eps=module.floor, divisor=1, groups=groups)


def dyt(table: Table, module: DyT, x: Value) -> Value:
    """w tanh(a x) + b."""
    x_nd = x.keep()
    n, d = x_nd.shape
    y, tanh_nd = table.value(n, d), table.take(n, d)
    weight, bias, alpha = (table.parameter(part) for part in (module.weight, module.bias, module.alpha))
    table.row("dyt", n, d, x_nd, _stride(x_nd), y.data, d, weight.data, bias.data, alpha.data, tanh_nd)

    def backward(grad_nd: Tensor) -> None:
        def into_learned(parts: list[Tensor]) -> None:
            def into_x(part: Tensor, skip: Tensor | None) -> None:
                table.row(
                    "dyt_back", n, d, grad_nd, _stride(grad_nd), x_nd, _stride(x_nd), weight.data, alpha.data, tanh_nd,
                    skip, part, _stride(part), *parts,
                )  # fmt: skip

            table.give_added(x, into_x)

        table.give_together([weight, bias, alpha], into_learned)

    table.backward(y, backward)
    return y


def batch_norm(table: Table, module: BatchNorm, x: Value) -> Value | None:
    """BatchNorm in training mode; None for a single token, which torch refuses."""
    x_nd = x.keep()
    n, d = x_nd.shape
    if n < 2 or module.momentum is None or module.running_mean is None:
        return None
    y, mean, inverse = table.value(n, d), table.take(d), table.take(d)
    weight, bias = table.parameter(module.weight), table.parameter(module.bias)
    table.row(
        "batch_norm", n, d, x_nd, _stride(x_nd), y.data, d, weight.data, bias.data, mean, inverse, float(module.eps),
        module.running_mean, module.running_var, float(module.momentum), module.num_batches_tracked,
    )  # fmt: skip

    def backward(grad_nd: Tensor) -> None:
        def into_learned(parts: list[Tensor]) -> None:
            def into_x(part: Tensor, skip: Tensor | None) -> None:
                table.row(
                    "batch_norm_back", n, d, grad_nd, _stride(grad_nd), x_nd, _stride(x_nd), weight.data, mean, inverse,
                    skip, part, _stride(part), *parts,
                )  # fmt: skip

            table.give_added(x, into_x)

        table.give_together([weight, bias], into_learned)

    table.backward(y, backward)
    return y


def _activation(table: Table, kernel: str, x: Value) -> Value:
    """A function of each number. What a product made for it alone gets the derivative in its place."""
    alone = isinstance(x, Made) and not x.kept
    n, d = x.data.shape
    y = table.value(n, d)
    kept = x.keep() if alone else table.take(n, d)
    table.row(kernel, n * d, x.data, y.data, kept)

    def backward(grad: Tensor) -> None:
        sums = _bias_sums(x)

        def write(part: Tensor) -> None:
            table.row("times_kept", n, d, grad, kept, part, sums)

        table.give_changed(x, grad, write)

    table.backward(y, backward)
    return y


def gelu(table: Table, module: nn.GELU, x: Value) -> Value | None:
    """x times the normal distribution function of x; None for its approximation."""
    return _activation(table, "gelu", x) if module.approximate == "none" and x.data.is_contiguous() else None


def relu(table: Table, module: nn.ReLU, x: Value) -> Value | None:
    """max(x, 0)."""
    return _activation(table, "relu", x) if x.data.is_contiguous() else None


def constant(table: Table, module: Constant, x: Value) -> Value | None:
    """A fixed factor."""
    if not x.data.is_contiguous():
        return None
    y = table.value(*x.data.shape)
    _scale(table, "scaled", float(module.factor), x.data, y.data, None)

    def backward(grad: Tensor) -> None:
        table.give_changed_added(x, grad, partial(_scale, table, "scaled", float(module.factor), grad))

    table.backward(y, backward)
    return y


def scaling(table: Table, module: Scaling, x: Value) -> Value | None:
    """A learned factor."""
    if not x.data.is_contiguous():
        return None
    factor, inputs, y = table.parameter(module.factor), x.keep(), table.value(*x.data.shape)
    _scale(table, "learned_scaled", factor.data, inputs, y.data, None)

    def backward(grad: Tensor) -> None:
        table.give(factor, lambda part: table.row("dot", grad.numel(), grad, inputs, part))
        table.give_changed_added(x, grad, partial(_scale, table, "learned_scaled", factor.data, grad))

    table.backward(y, backward)
    return y


def _scale(table: Table, kernel: str, factor: Argument, x: Tensor, out: Tensor, skip: Tensor | None) -> None:
    table.row(kernel, x.numel(), x, skip, out, factor)


def same(table: Table, module: nn.Identity, x: Value) -> Value:
    """Nothing at all."""
    return x


def attend(
    table: Table, q: Value, k: Value, v: Value, tokens: int, heads: int, scale: float, stacked: Value | None
) -> Value:
    """softmax(scale q k^T + mask) v, of (n, d) each; `stacked` is the product whose columns they are, if they are."""
    parts = [q, k, v]
    matrices = [part.keep() for part in parts]
    n, d = q.data.shape
    features, sequences = d // heads, n // tokens
    long, wide = (-(-size // BLOCK) * BLOCK for size in (tokens, features))
    y, shares = table.value(n, d), table.take(sequences * heads, long, long)
    where: list[Argument] = []
    for matrix in matrices:
        where += [matrix, _stride(matrix)]
    padded = (long, wide) != (tokens, features)
    work = table.take(4, long, wide) if padded else None
    table.row("attention", sequences, tokens, heads, features, *where, y.data, d, shares, float(scale), work)
    if work is not None:
        table.put(work)

    def backward(grad_nd: Tensor) -> None:
        sums = None if stacked is None else _bias_sums(stacked)
        work = table.take(7, long, wide) if padded else None

        def write(buffers: list[Tensor]) -> None:
            grads: list[Argument] = []
            for buffer in buffers:
                grads += [buffer, _stride(buffer)]
            table.row(
                "attention_back",
                sequences,
                tokens,
                heads,
                features,
                *where,
                grad_nd,
                d,
                shares,
                float(scale),
                *grads,
                sums,
                work,
            )

        table.give_together(parts, write)
        if work is not None:
            table.put(work)

    table.backward(y, backward)
    return y


def running_mean(table: Table, x: Value, tokens: int) -> Value:
    """Mean of the tokens so far."""
    n, d = x.data.shape
    y = table.value(n, d)
    table.row("running_mean", n // tokens, tokens, d, x.data, y.data)

    def backward(grad: Tensor) -> None:
        def write(part: Tensor, skip: Tensor | None) -> None:
            table.row("running_mean_back", n // tokens, tokens, d, grad, skip, part)

        table.give_added(x, write)

    table.backward(y, backward)
    return y


def attention_scale(features: int, scale: float | None) -> float:
    """The factor on q k^T; None is 1 / sqrt(k)."""
    return 1 / math.sqrt(features) if scale is None else scale


def is_whole(x: Value) -> bool:
    """Whether rows of floats lie at a fixed distance: what kernels read."""
    return x.data.dim() == 2 and x.data.dtype == torch.float32 and x.data.stride(1) == 1


def embed(table: Table, words: nn.Embedding, places: nn.Embedding | None, tokens_bt: Tensor) -> Value:
    """Rows of the words, plus those of the positions."""
    (batch, t), d = tokens_bt.shape, words.embedding_dim
    n, x = batch * t, table.value(batch * t, d)
    learned = [table.parameter(part.weight) for part in (words, places) if part is not None]
    at = None if places is None else learned[1].data
    table.row("embed", n, t, d, tokens_bt, learned[0].data, at, x.data)

    def backward(grad_nd: Tensor) -> None:
        def write(parts: list[Tensor]) -> None:
            sizes: list[Argument] = []
            for part in parts:
                sizes += [part, part.numel()]
            table.row("embed_back", n, t, d, tokens_bt, grad_nd, *sizes)

        table.give_together(learned, write)

    table.backward(x, backward)
    return x


def counted(table: Table, x: Value, batch: int, first: int) -> Value:
    """The tokens whose targets count: those of each sequence from `first` on."""
    n, d = x.data.shape
    t = n // batch
    y = table.value(batch * (t - first), d)
    table.row("counted", batch, t, d, first, x.data, y.data)

    def backward(grad: Tensor) -> None:
        def write(part: Tensor) -> None:
            table.row("counted_back", batch, t, d, first, grad, part)

        table.give(x, write)

    table.backward(y, backward)
    return y


def cross_entropy(table: Table, logits: Value, targets_n1: Tensor, loss: Tensor) -> None:
    """Mean over the targets into `loss`, of float64; the gradient of the logits."""
    n, vocab = logits.data.shape
    logits.grad = table.take(n, vocab)
    table.row("cross_entropy", n, vocab, logits.data, targets_n1, logits.grad, loss)
