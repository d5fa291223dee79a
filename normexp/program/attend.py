"""The nodes of mixers that look at other tokens, by plain products: right for short sequences.

Axes: b sequences, t tokens, d features, h heads, k features of a head; n is b times t, g is b times h.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from normexp.program.tape import Tape, Value


def parts(tape: Tape, stacked: Value, count: int) -> list[Value]:
    """The column blocks of (n, count d); their gradients go side by side into one buffer."""
    n, width = stacked.data.shape
    blocks = stacked.data.view(n, count, -1)

    def target(number: int) -> Tensor:
        if stacked.grad is None:
            stacked.grad = tape.take(n, width)
        return stacked.grad.view(n, count, -1)[:, number]

    return [Value(blocks[:, number], partial(target, number), stacked) for number in range(count)]


def split_heads(tape: Tape, x: Value, batch: int, heads: int, count: int) -> list[Value]:
    """The column blocks of (n, count d), each as (g, t, k); one copy there, and one back."""
    n, width = x.data.shape
    t, k = n // batch, width // (count * heads)
    split, merged = (count, batch, heads, t, k), (batch, t, count, heads, k)
    y = tape.value(*split)
    tape.call(y.data.copy_, x.data.view(merged).permute(2, 0, 3, 1, 4))

    def target(number: int) -> Tensor:
        if y.grad is None:
            y.grad = tape.take(*split)
        return y.grad[number].view(-1, t, k)

    # The same as a copy of the permuted tensor, in half the time.
    rows = torch.arange(count * batch * heads * t).view(split[:-1]).permute(1, 3, 0, 2).flatten()

    def backward(grad: Tensor) -> None:
        tape.give(x, lambda part: tape.call(torch.index_select, grad.view(-1, k), 0, rows, out=part.view(-1, k)))

    tape.backward(y, backward)
    return [Value(y.data[number].view(-1, t, k), partial(target, number), y) for number in range(count)]


def merge_heads(tape: Tape, x: Value, batch: int, heads: int) -> Value:
    """(g, t, k) to (n, d)."""
    _, t, k = x.data.shape
    y = tape.value(batch * t, heads * k)
    tape.call(y.data.view(batch, t, heads, k).copy_, x.data.view(batch, heads, t, k).transpose(1, 2))

    def backward(grad_nd: Tensor) -> None:
        grad = grad_nd.view(batch, t, heads, k).transpose(1, 2)
        tape.give(x, lambda part: tape.call(part.view(batch, heads, t, k).copy_, grad))

    tape.backward(y, backward)
    return y


def attend(tape: Tape, q: Value, k: Value, v: Value, scale: float) -> Value:
    """softmax(scale q k^T + mask) v over (g, t, k): a token sees itself and those before it."""
    g, t, _ = q.data.shape
    q_gtk, k_gtk, v_gtk = q.keep(), k.keep(), v.keep()
    mask_tt = torch.full((t, t), float("-inf")).triu(1)
    shares_gtt, y = tape.take(g, t, t), tape.value(*v_gtk.shape)
    logits = tape.take(g, t, t)
    tape.call(torch.baddbmm, mask_tt, q_gtk, k_gtk.transpose(1, 2), alpha=scale, out=logits)
    tape.call(torch.ops.aten._softmax.out, logits, -1, False, out=shares_gtt)
    tape.put(logits)
    tape.call(torch.bmm, shares_gtt, v_gtk, out=y.data)

    def product(out: Tensor, one: Tensor, other: Tensor) -> None:
        tape.call(torch.baddbmm, out, one, other, beta=0, alpha=scale, out=out)

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
    """Mean of the tokens so far, as a product with a triangular matrix."""
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
