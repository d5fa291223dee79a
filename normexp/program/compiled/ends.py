"""The rows of both ends of a network: embeddings, the tokens whose targets count, the loss."""

from __future__ import annotations

from torch import Tensor, nn

from normexp.program.compiled.table import Argument, Table
from normexp.program.tape import Value


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
