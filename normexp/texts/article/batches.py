"""Statistics over a batch, a sequence, and a token (section 1.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.texts.article.printed import Make, in_settings, norm
from normexp.texts.figures import Figures, Observed, compare_printed, contradiction, one_seed
from normexp.training.trainer import Trainer

SEED, WIDTH, LENGTHS = 1, 64, (5, 12, 30, 200)
BATCHES = 20


def sequences(seed: int) -> list[Tensor]:
    """Return four sequences (t, d), drawn as in the article's code."""
    torch.manual_seed(SEED + seed)
    return [torch.randn(tokens, WIDTH) * 2.0 + 1.0 for tokens in LENGTHS]


def statistics(x: Tensor) -> tuple[float, float]:
    """Return the mean and the biased variance over all elements."""
    return x.mean().item(), x.var(unbiased=False).item()


def printed_batch(seed: int, figures: Figures) -> Finding:
    """Compare the mean and variance over all tokens of the first 4, 2 and 1 sequences with the figures."""
    values = [value for keep in (4, 2, 1) for value in statistics(torch.cat(sequences(seed)[:keep]))]
    return compare_printed(values, figures, "mean and variance of the first 4, 2 and 1 sequences")


def printed_sequences(seed: int, figures: Figures) -> Finding:
    """Compare the mean and variance of each of the first two sequences with the figures."""
    values = [value for x_td in sequences(seed)[:2] for value in statistics(x_td)]
    return compare_printed(values, figures, "mean and variance of the first and of the second sequence")


def one_alone(seed: int, figures: Figures) -> Finding:
    """Check that a batch of one sequence has the printed statistics of that sequence.

    The first two figures are those of the batch, and the last two those of the sequence.
    """
    first = sequences(seed)[0]
    assert statistics(torch.cat([first])) == statistics(first)
    measured = "{:.3f} and {:.3f} both ways".format(*statistics(first))
    batch, alone = [float(figure) for figure in figures[:2]], [float(figure) for figure in figures[2:]]
    return contradiction(batch == alone, measured, f"one sequence has one mean and variance, {measured}")


def per_token(seed: int, name: str = "ln") -> Finding:
    """Check that what the code calls LayerNorm's statistics leaves a token unchanged when others change."""
    x_td = sequences(seed)[0]
    changed_td = torch.cat([x_td[:-1], x_td[-1:] + 10])

    def whole(x: Tensor) -> Tensor:
        mean, variance = statistics(x)
        return (x - mean).div(math.sqrt(variance + 1e-5))

    moved = float((whole(changed_td)[0] - whole(x_td)[0]).abs().max())
    layer_norm = norm(name, WIDTH)
    kept = float((layer_norm(changed_td)[0] - layer_norm(x_td)[0]).detach().abs().max())
    measured = f"the first token moves by {moved:.2g}, with LayerNorm by {kept:.2g}"
    sentence = f"if the last token changes, with statistics of the sequence {measured}"
    return contradiction(moved <= kept, measured, sentence)


def alone(seed: int, name: str = "ln") -> Finding:
    """Check that a token's output does not depend on the rest of the batch, in training and in evaluation."""
    torch.manual_seed(seed)
    x_btd = torch.randn(8, 16, WIDTH) * 2 + 1
    others_btd = torch.randn(8, 16, WIDTH) * 5
    others_btd[0, 0] = x_btd[0, 0]
    module = norm(name, WIDTH).train()
    before, after = module(x_btd)[0, 0], module(others_btd)[0, 0]
    evaluated = module.eval()(x_btd)[0, 0]
    moved, mode = (float((other - before).detach().abs().max()) for other in (after, evaluated))
    measured = f"change of {moved:.2g} with other neighbours, of {mode:.2g} in evaluation"
    return one_seed(moved == 0 and mode == 0, measured, f"a token's output has a {measured}, seed {seed}")


def padding(seed: int, name: str = "bn") -> Finding:
    """Check that the outputs for the tokens of four sequences change if padding with zeros is included."""
    xs = sequences(seed)
    padded_btd = torch.zeros(len(xs), max(LENGTHS), WIDTH)
    for row_td, x_td in zip(padded_btd, xs, strict=True):
        row_td[: len(x_td)] = x_td
    module = norm(name, WIDTH)
    with_padding = torch.cat([row[: len(x)] for row, x in zip(module(padded_btd), xs, strict=True)])
    without = module(torch.cat(xs)[None])[0]
    moved = float((with_padding - without).detach().square().mean().sqrt())
    measured = f"outputs of the real tokens move by {moved:.2g} (RMS)"
    return one_seed(moved > 0.01, measured, f"if padding with zeros to 200 tokens is included, {measured}, seed {seed}")


def noise(seed: int, name: str = "bn") -> Finding:
    """Check that a sequence's logits vary 1.5 times more with the rest of its batch for batches of 8 than for 32."""

    def look(make: Make) -> Observed:
        spread = {size: logit_spread(make(depth=6, norm=name, seed=seed), size) for size in (32, 8)}
        return spread[8] > 1.5 * spread[32], f"{spread[32]:.3f} and {spread[8]:.3f}"

    sentence = "spread of the logits of one sequence over 20 batches of 32 and of 8, 6 layers at initialization"
    return in_settings(look, f"{sentence}, seed {seed}")


@torch.no_grad()
def logit_spread(config: RunConfig, size: int) -> float:
    """Return the standard deviation of the first validation sequence's logits over 20 batches of a size."""
    trainer = Trainer(config, autograd=True)
    tokens_nt = torch.from_numpy(trainer.validation.inputs_nt)
    network, outputs = trainer.network.train(), []
    torch.manual_seed(config.seed)
    for _ in range(BATCHES):
        others = 1 + torch.randperm(len(tokens_nt) - 1)[: size - 1]
        outputs.append(network(torch.cat([tokens_nt[:1], tokens_nt[others]]))[0])
    return float(torch.stack(outputs).var(dim=0).mean().sqrt())
