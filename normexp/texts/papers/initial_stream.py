"""What papers predict of the stream at initialization: how its size, its tokens and its skip path change by layer.

What is predicted of the outputs of a single norm, and of a network whose norms are replaced.

Gradients of W2, the FFN's second matrix, as papers take them: of one position, and expected over mini-batches.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.texts.figures import plain
from normexp.texts.papers import initial, outputs
from normexp.texts.papers.initial import DEPTHS, NETWORK, SERIES, ends, geometric, network, row, seeds_of, told
from normexp.training.layer_signal import hooked
from normexp.training.optimizers import float64_norm
from normexp.training.trainer import Trainer, thread_count

ROUNDING = 1e-12
"""Of float64, with room."""


def rms_statistics(seed: int) -> Finding:
    """RMSNorm of N(0.5, 1): outputs of mean 0.4472 and standard deviation 0.8944, within 0.003."""
    mean, std = outputs.rms_statistics(0.5, 1.0, seed)
    root = math.hypot(0.5, 1.0)
    holds = abs(mean - 0.5 / root) < 0.003 and abs(std - 1 / root) < 0.003
    measured = f"{mean:.4f}, {std:.4f}"
    return plain(holds, measured, f"{measured}; 200 rows of 4096 features, seed {seed}")


def bounded(seed: int) -> Finding:
    """The largest output of 64 features is 8 for RMSNorm, the root of 63 for LayerNorm; no other row exceeds it."""
    bounds = {"rms": math.sqrt(64), "ln": math.sqrt(63)}
    largest = {norm: outputs.largest_output(norm) for norm in bounds}
    heavy = {norm: float(outputs.normalized(norm, outputs.heavy_rows(seed)).abs().max()) for norm in bounds}
    limit = 1 + ROUNDING
    holds = all(abs(largest[n] / bound - 1) < ROUNDING and heavy[n] <= bound * limit for n, bound in bounds.items())
    told = f"{largest['rms']:.4g}, {largest['ln']:.4g}"
    tails = f"rows of heavy tails reach {heavy['rms']:.4g}, {heavy['ln']:.4g}"
    return plain(holds, told, f"{told}; one feature of 64 is 1; {tails}, seed {seed}")


def invariance(seed: int) -> Finding:
    """RMSNorm does not see its input multiplied, and does see a constant added; LayerNorm sees neither."""
    x_nd = outputs.rows(seed)
    moved = {
        (norm, change): float((outputs.normalized(norm, y_nd) - outputs.normalized(norm, x_nd)).abs().max())
        for norm in ("rms", "ln")
        for change, y_nd in (("scaled", 3 * x_nd), ("shifted", x_nd + 1))
    }
    blind = [moved["rms", "scaled"], moved["ln", "scaled"], moved["ln", "shifted"]]
    holds = max(blind) < ROUNDING and moved["rms", "shifted"] > 0.1
    told = f"RMSNorm {moved['rms', 'scaled']:.0e} and {moved['rms', 'shifted']:.2g}, "
    told += f"LayerNorm {blind[1]:.0e} and {blind[2]:.0e}"
    return plain(holds, told, f"{told}; largest change by a factor of 3 and by adding 1, 4096 features, seed {seed}")


def layer_norm_is_centred_rms(seed: int) -> Finding:
    """LayerNorm is RMSNorm of the input less its mean, to rounding in float64; of the input itself it is not."""
    x_nd = outputs.rows(seed, mean=0.5)
    layer_nd = outputs.normalized("ln", x_nd)
    error, other = (
        float((outputs.normalized("rms", y_nd) - layer_nd).abs().max()) for y_nd in (x_nd - x_nd.mean(-1, True), x_nd)
    )
    told = f"largest difference {error:.0e}; without taking the mean out, {other:.2g}"
    return plain(error < ROUNDING < 0.1 < other, told, f"{told}; 4096 features, seed {seed}")


def pre_layer_norm_folds(seed: int) -> Finding:
    """A Pre network of 6 layers with any gains and biases has one with RMSNorm that computes the same, to rounding."""
    error, kept, std = outputs.fold_errors(seed)
    told = f"largest logit error {error / std:.0e} of their spread; with gains kept, biases dropped, {kept / std:.2g}"
    where = f"float64, 6 layers of attention and FFN, a biased final LayerNorm kept, seed {seed}"
    return plain(error / std < 1e-9 < 1e-2 < kept / std, told, f"{told}; {where}")


BATCHES = 12
"""Mini-batches whose mean stands for an expected gradient."""
TOP_DEPTHS = (6, 18, 24)


@functools.cache
def expected_gradients(config: RunConfig) -> tuple[float, ...]:
    """Norm of W2's gradient, mean over mini-batches, in layers 1 to depth."""
    trainer = Trainer(config)
    some = slice(0, BATCHES * config.batch)
    with thread_count(1):
        trainer.backward(Batch(trainer.validation.inputs_nt[some], trainer.validation.targets_nt[some]))
    return tuple(
        float64_norm(_grad(_fc2(trainer, layer).get_parameter("weight"))) for layer in range(1, config.depth + 1)
    )


def top_over_bottom(position: str, seed: int, **keys: Any) -> float:
    """Expected gradient of W2 in the last three of 20 layers over that in the first three."""
    gradients = expected_gradients(network(position, 20, seed, **keys))
    return geometric(gradients[-3:]) / geometric(gradients[:3])


@functools.cache
def of_one_position(config: RunConfig, factor: float = 1.0) -> float:
    """Norm of the gradient of the last layer's W2 for the loss of one position; root mean square over positions.

    That layer's W1, and with it h = relu(W1 x), is multiplied by the factor. Nothing after W2 mixes positions, so that
    one position's gradient is the product of its h and of the gradient at its output.
    """
    trainer = Trainer(config)
    fc2 = _fc2(trainer, config.depth)
    sizes: dict[str, Tensor] = {}

    def see(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        sizes["h"] = inputs[0].detach().double().square().sum(-1)
        output.register_hook(lambda grad: sizes.update(grad=grad.double().square().sum(-1)))  # type: ignore[no-untyped-call]

    with thread_count(1), hooked([fc2.register_forward_hook(see)]):
        with torch.no_grad():
            _ffn(trainer, config.depth).get_parameter("fc1.weight").mul_(factor)
        _only(trainer, [fc2.get_parameter("weight")])
        trainer.backward(trainer.signal_batch)
    squares = (sizes["h"] * sizes["grad"])[:, trainer.task.first :]
    return squares.numel() * math.sqrt(float(squares.mean()))


def last_w2_gradients(position: str, seeds: Sequence[int]) -> list[float]:
    """That by depth; geometric mean over seeds."""
    return [geometric(of_one_position(network(position, depth, seed)) for seed in seeds) for depth in DEPTHS]


def growth_with_h(
    position: str, factors: Iterable[float], seeds: Sequence[int], *, final_norm: str = "none"
) -> list[float]:
    """That of a single layer by factor, over that of factor 1; geometric mean over seeds."""
    configs = [network(position, 1, seed, final_norm=final_norm) for seed in seeds]
    return [geometric(of_one_position(config, k) / of_one_position(config) for config in configs) for k in factors]


@functools.cache
def top_layer_gradient(depth: int, seed: int, *, narrowed: bool) -> float:
    """Post: norm of the gradient of all matrices of the last layer.

    Narrowed: after Xavier initialization, those of layer l of L are divided by L - l + 1, in the last layer by 1.
    """
    trainer = Trainer(network("post", depth, seed))
    blocks = trainer.network.blocks
    last = [parameter for parameter in blocks[str(depth)].parameters() if parameter.dim() > 1]
    with thread_count(1):
        with torch.no_grad():
            for layer, block in blocks.items() if narrowed else ():
                for matrix in (parameter for parameter in block.parameters() if parameter.dim() > 1):
                    matrix.div_(depth - int(layer) + 1)
        _only(trainer, last)
        trainer.backward(trainer.signal_batch)
    return math.hypot(*(float64_norm(_grad(matrix)) for matrix in last))


def top_layer_gradients(seeds: Sequence[int], *, narrowed: bool) -> list[float]:
    """That for each of TOP_DEPTHS; geometric mean over seeds."""
    return [geometric(top_layer_gradient(depth, s, narrowed=narrowed) for s in seeds) for depth in TOP_DEPTHS]


def _ffn(trainer: Trainer, layer: int) -> nn.Module:
    return trainer.network.blocks[str(layer)].get_submodule("ffn.f")


def _fc2(trainer: Trainer, layer: int) -> nn.Linear:
    found = _ffn(trainer, layer).get_submodule("fc2")
    assert isinstance(found, nn.Linear)
    return found


def _only(trainer: Trainer, wanted: Sequence[Tensor]) -> None:
    """Spare the backward pass what is not asked for."""
    for parameter in trainer.network.parameters():
        parameter.requires_grad_(any(parameter is other for other in wanted))


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


ENDS = "L = 4 and 40"
SQUARE = NETWORK.replace("hidden 128", "hidden 64")


def pre_linear(seed: int) -> Finding:
    """Pre: the mean square after layer l is between 1 + l/2 and 1 + 3l/2 (h = d), within 3 %, and near a line."""
    seeds, depth = seeds_of(seed), 20
    squares = initial.expected_squares("pre", depth, seeds, hidden=initial.WIDTH)
    within = all(0.97 * (1 + layer / 2) < value < 1.03 * (1 + 1.5 * layer) for layer, value in enumerate(squares))
    steepness, straight = initial.fit_of_line(squares)
    measured = f"1 to {squares[-1]:.1f} over {depth} layers, {steepness:.2f} a layer, R² {straight:.3f}"
    return told(within and straight > 0.98, measured, seeds, SQUARE, depth=f"L = {depth}")


def post_constant(seed: int) -> Finding:
    """Post: the mean square is 1 after each norm, within 1 %, and 3/2 before an FFN's (h = d), within 3 %."""
    seeds = seeds_of(seed)
    after = [value for s in seeds for value in initial.mean_squares("post", 20, s, hidden=initial.WIDTH)[1:]]
    before = statistics.fmean(v for s in seeds for v in initial.before_norms("ffn", s, hidden=initial.WIDTH))
    holds = all(abs(value - 1) < 0.01 for value in after) and abs(before / 1.5 - 1) < 0.03
    return told(holds, f"{statistics.fmean(after):.3f}; {before:.3f}", seeds, SQUARE, depth="L = 20")


def ffn_norm_shrinks(seed: int) -> Finding:
    """Post: an FFN's norm multiplies the skip path by the root of 2/3, within 2 % (h = d)."""
    seeds = seeds_of(seed)
    factor = initial.skip_factor("ffn", seeds, hidden=initial.WIDTH)
    holds = abs(factor / math.sqrt(2 / 3) - 1) < 0.02
    return told(holds, f"{factor:.4f}", seeds, SQUARE, depth="L = 20")


def skip_shrinks(seed: int) -> Finding:
    """Post: a norm multiplies the skip path by 0.7071 where the branch has mean square 1, within 2 %."""
    seeds = seeds_of(seed)
    mixer = initial.skip_factor("mixer", seeds, **initial.UNIT_MIXER)
    ffn = initial.skip_factor("ffn", seeds, **initial.UNIT_FFN)
    holds = all(abs(value * math.sqrt(2) - 1) < 0.02 for value in (mixer, ffn))
    network = "linear mixer, width 64, weights of variance 1 / inputs, the FFN's times 2^(1/4)"
    return told(holds, f"{mixer:.4f} mixer, {ffn:.4f} FFN", seeds, network, depth="L = 20")


def skip_with_torch_weights(seed: int) -> Finding:
    """Post: with torch's default weights, a norm multiplies it by 0.866 and 0.972, within 1 %.

    Weights uniform in +-1/sqrt(n) have variance 1/(3n): a matrix leaves 1/3, an FFN 1/3 * 1/2 * 1/3.
    """
    seeds = seeds_of(seed)
    mixer, ffn = (initial.skip_factor(branch, seeds, **initial.TORCH) for branch in ("mixer", "ffn"))
    holds = all(abs(value * math.sqrt(1 + v) - 1) < 0.01 for value, v in ((mixer, 1 / 3), (ffn, 1 / 18)))
    network = "linear mixer, width 64, weights of nn.Linear"
    return told(holds, f"{mixer:.3f} mixer, {ffn:.3f} FFN", seeds, network, depth="L = 20")


def tokens_become_one(seed: int) -> Finding:
    """Post: the mean cosine between tokens rises with depth, beyond 0.99 at 40 layers."""
    seeds = seeds_of(seed)
    cosines = initial.top_cosines("post", seeds)
    return told(cosines == sorted(cosines) and cosines[-1] > 0.99, row(cosines, 4), seeds, depth=SERIES)


def scaled_branches_keep_tokens(seed: int) -> Finding:
    """Pre, branches over sqrt(2L): the mean cosine is below 0.5 at every depth, 4 to 40."""
    seeds = seeds_of(seed)
    scaled, plain = (initial.top_cosines(name, seeds) for name in ("residual_scaled", "pre"))
    return told(max(scaled) < 0.5, f"{row(scaled)}; not scaled {row(plain)}", seeds, depth=SERIES)


def peri_linear(seed: int) -> Finding:
    """Sandwich: the mean square after layer l is 1 + 2l, within 10 % at every one of 40 layers.

    Single networks scatter at the top by an eighth of it: the mean of 16 is told from 10 % more by three of its errors.
    """
    seeds, depth = seeds_of(seed, 16), 40
    squares = initial.expected_squares("sandwich", depth, seeds)
    within = all(abs(value / (1 + 2 * layer) - 1) < 0.1 for layer, value in enumerate(squares))
    tops = [initial.mean_squares("sandwich", depth, s)[-1] for s in seeds]
    return told(within, f"{squares[-1]:.1f}, seeds {ends(tops, 3)}", seeds, depth=f"L = {depth}")


def lns_between(seed: int) -> Finding:
    """LNS: the mean square at the top grows by a power of depth from 1 to less than 2, from 4 to 40 layers."""
    seeds = seeds_of(seed)
    power, top = _growth("lns", seeds)
    return told(1 <= power < 2, f"power {power:.2f}; {top:.1f} at L = 40", seeds, depth=ENDS)


def lns_below_pre(seed: int) -> Finding:
    """LNS: that power is less than Pre's by more than 1/2."""
    seeds = seeds_of(seed)
    (lns, _), (pre, _) = (_growth(name, seeds) for name in ("lns", "pre"))
    return told(lns < pre - 0.5, f"LNS {lns:.2f}, Pre {pre:.2f}", seeds, depth=ENDS)


def _growth(position: str, seeds: Sequence[int]) -> tuple[float, float]:
    """The power of depth by which the mean square at the top grows from 4 to 40 layers, and what it is there."""
    tops = [initial.expected_squares(position, depth, seeds)[-1] for depth in (4, 40)]
    return initial.slope(tops, (4, 40)), tops[-1]


def bare_doubles(seed: int) -> Finding:
    """Without a norm: 1.53 doublings a layer of the mean square, within 6 %."""
    seeds = seeds_of(seed)
    grown = [initial.log2_growth(20, s) for s in seeds]
    holds = abs(statistics.fmean(grown) / math.log2(2 * 13 / 9) - 1) < 0.06
    return told(holds, f"{ends(grown, 3)} doublings a layer", seeds, depth="L = 20")
