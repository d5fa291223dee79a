"""Times of LayerNorm and RMSNorm on this machine (sections 3.4 and 6.4). No verdict is expected of these."""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Mapping

import torch

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.texts.figures import Figures, one_seed
from normexp.training.bench import CANDIDATES, REFERENCE, interleaved, steps

HANDWRITTEN, OWN = "handwritten", "normexp"
PRINTED_SHAPE = (64, 128, 1024)
SHAPES = ((512, 64), (512, 1024), (4096, 1024))
ROUNDS = 7


@functools.cache
def medians(shape: tuple[int, ...]) -> Mapping[str, float]:
    """Return the median microseconds of a forward pass of LayerNorm and of RMSNorm, handwritten and normexp's."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    norms = {name: CANDIDATES[name](shape[-1]) for name in (REFERENCE, HANDWRITTEN, OWN)}
    seconds = interleaved({name: functools.partial(norm, x) for name, norm in norms.items()}, ROUNDS)
    return {name: statistics.median(times) * 1e6 for name, times in seconds.items()}


def _times_text(times: Mapping[str, float]) -> str:
    return f"LayerNorm {times[REFERENCE]:.0f} us, handwritten {times[HANDWRITTEN]:.0f}, normexp {times[OWN]:.0f}"


def times_printed(seed: int, figures: Figures) -> Finding:
    """Check that LayerNorm and handwritten RMSNorm take the stated microseconds, within a factor of 2."""
    times = medians(PRINTED_SHAPE)
    pairs = zip((times[REFERENCE], times[HANDWRITTEN]), map(float, figures), strict=True)
    bandwidth = 2 * 4 * torch.Size(PRINTED_SHAPE).numel() / (float(figures[0]) * 1e-6) / 1e9
    sentence = f"one thread: {_times_text(times)}; {figures[0]} us would read and write {bandwidth:.0f} GB/s"
    return one_seed(all(0.5 < value / stated < 2 for value, stated in pairs), _times_text(times), sentence)


def by_hand_is_faster(seed: int) -> Finding:
    """Check that handwritten RMSNorm takes less time than LayerNorm at (64, 128, 1024)."""
    times, text = medians(PRINTED_SHAPE), _times_text(medians(PRINTED_SHAPE))
    return one_seed(times[HANDWRITTEN] < times[REFERENCE], text, f"forward, one thread: {text}")


def by_hand_is_slower(seed: int) -> Finding:
    """Check that handwritten RMSNorm takes more time than LayerNorm at (64, 128, 1024)."""
    times, text = medians(PRINTED_SHAPE), _times_text(medians(PRINTED_SHAPE))
    return one_seed(times[HANDWRITTEN] > times[REFERENCE], text, f"forward, one thread: {text}")


def benchmark_fits(seed: int, calls: int = 2000) -> Finding:
    """Check that the outputs kept by the article's benchmark, one per call, fit into memory."""
    needed = calls * 4 * torch.Size(PRINTED_SHAPE).numel()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    measured = f"{needed / 1e9:.0f} GB of {memory / 1e9:.0f} GB"
    return one_seed(needed < memory, measured, f"the benchmark keeps {calls} outputs, at least {measured}")


def same_gain_everywhere(seed: int, figures: Figures) -> Finding:
    """Check that handwritten RMSNorm saves the stated percentages of time at each of three shapes.

    The figures are the lowest and the highest percentage.
    """
    gains = {shape: 100 * (1 - times[HANDWRITTEN] / times[REFERENCE]) for shape in SHAPES for times in [medians(shape)]}
    low, high = float(figures[0]) - 1, float(figures[1]) + 1
    measured = ", ".join(f"{gain:.0f} % at {'x'.join(map(str, shape))}" for shape, gain in gains.items())
    own = ", ".join(f"{100 * (1 - medians(shape)[OWN] / medians(shape)[REFERENCE]):.0f} %" for shape in SHAPES)
    holds = all(low <= gain <= high for gain in gains.values())
    return one_seed(
        holds, measured, f"forward, one thread, time saved by handwritten RMSNorm: {measured}; by normexp's {own}"
    )


def share_in_model(seed: int, figures: Figures) -> Finding:
    """Check that the operator's gain times the share of norms in a step gives the model's gain.

    The figures are the operator's gain and the range of the model's gain, in percent. The share is that of a training
    step of 12 layers; forward and backward together count as three forward passes.
    """
    operator, low, high = map(float, figures)
    configs = {name: RunConfig(depth=12, norm=name) for name in ("ln", "rms")}
    rounds = steps(configs, 15, "12 layers")
    step = {name: statistics.median(times) * 1e6 for name, times in rounds.seconds.items()}
    share = 25 * 3 * medians((512, 64))[REFERENCE] / step["ln"]
    measured = f"norms are {share:.0%} of a step, required are {low / operator:.0%} to {high / operator:.0%}"
    gain = 1 - step["rms"] / step["ln"]
    sentence = f"{measured}; a step takes {step['ln'] / 1e3:.1f} ms, with RMSNorm {gain:.0%} less"
    return one_seed(low / operator <= share <= high / operator, measured, sentence)
