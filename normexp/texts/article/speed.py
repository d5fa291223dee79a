"""Times of LayerNorm and RMSNorm on this machine (sections 3.4 and 6.4): no verdict is expected of them."""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Mapping

import torch

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.texts.figures import Figures, plain
from normexp.training.bench import CANDIDATES, REFERENCE, interleaved, steps

HANDWRITTEN, OWN = "handwritten", "normexp"
PRINTED_SHAPE = (64, 128, 1024)
SHAPES = ((512, 64), (512, 1024), (4096, 1024))
ROUNDS = 7


@functools.cache
def medians(shape: tuple[int, ...]) -> Mapping[str, float]:
    """Median microseconds of a forward pass, of LayerNorm and of RMSNorm written by hand and with its own backward."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    norms = {name: CANDIDATES[name](shape[-1]) for name in (REFERENCE, HANDWRITTEN, OWN)}
    seconds = interleaved({name: functools.partial(norm, x) for name, norm in norms.items()}, ROUNDS)
    return {name: statistics.median(times) * 1e6 for name, times in seconds.items()}


def _told(times: Mapping[str, float]) -> str:
    return f"LayerNorm {times[REFERENCE]:.0f} us, by hand {times[HANDWRITTEN]:.0f}, normexp {times[OWN]:.0f}"


def times_printed(seed: int, figures: Figures) -> Finding:
    """At (64, 128, 1024), LayerNorm and RMSNorm by hand take the microseconds stated, to a factor of 2."""
    found = medians(PRINTED_SHAPE)
    pairs = zip((found[REFERENCE], found[HANDWRITTEN]), map(float, figures), strict=True)
    moved = 2 * 4 * torch.Size(PRINTED_SHAPE).numel() / (float(figures[0]) * 1e-6) / 1e9
    sentence = f"one thread: {_told(found)}; {figures[0]} us would read and write {moved:.0f} GB/s"
    return plain(all(0.5 < value / stated < 2 for value, stated in pairs), _told(found), sentence)


def by_hand_is_faster(seed: int) -> Finding:
    """At (64, 128, 1024), RMSNorm by hand takes less time than LayerNorm."""
    found = medians(PRINTED_SHAPE)
    return plain(found[HANDWRITTEN] < found[REFERENCE], _told(found), f"forward, one thread: {_told(found)}")


def by_hand_is_slower(seed: int) -> Finding:
    """At (64, 128, 1024), RMSNorm by hand takes more time than LayerNorm."""
    found = medians(PRINTED_SHAPE)
    return plain(found[HANDWRITTEN] > found[REFERENCE], _told(found), f"forward, one thread: {_told(found)}")


def benchmark_fits(seed: int, calls: int = 2000) -> Finding:
    """The outputs that its benchmark keeps, one a call, fit into this machine's memory."""
    needed = calls * 4 * torch.Size(PRINTED_SHAPE).numel()
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    measured = f"{needed / 1e9:.0f} GB of {there / 1e9:.0f} GB"
    return plain(needed < there, measured, f"its list keeps {calls} outputs, at least {measured}")


def same_gain_everywhere(seed: int, figures: Figures) -> Finding:
    """At each of three shapes, RMSNorm by hand takes the stated percentages (two figures) less time than LayerNorm."""
    gains = {shape: 100 * (1 - times[HANDWRITTEN] / times[REFERENCE]) for shape in SHAPES for times in [medians(shape)]}
    low, high = float(figures[0]) - 1, float(figures[1]) + 1
    measured = ", ".join(f"{gain:.0f} % at {'x'.join(map(str, shape))}" for shape, gain in gains.items())
    own = ", ".join(f"{100 * (1 - medians(shape)[OWN] / medians(shape)[REFERENCE]):.0f} %" for shape in SHAPES)
    holds = all(low <= gain <= high for gain in gains.values())
    return plain(holds, measured, f"forward, one thread, time saved by hand: {measured}; by normexp's RMSNorm {own}")


def share_in_model(seed: int, figures: Figures) -> Finding:
    """The operator's gain (first figure, percent) is the model's (second to third) times the norms' share of time.

    The share is that of a training step of 12 layers, forward and backward counted thrice the forward pass.
    """
    operator, low, high = map(float, figures)
    configs = {name: RunConfig(depth=12, norm=name) for name in ("ln", "rms")}
    rounds = steps(configs, 15, "12 layers")
    step = {name: statistics.median(times) * 1e6 for name, times in rounds.seconds.items()}
    share = 25 * 3 * medians((512, 64))[REFERENCE] / step["ln"]
    measured = f"norms are {share:.0%} of a step, {low / operator:.0%} to {high / operator:.0%} are needed"
    gain = 1 - step["rms"] / step["ln"]
    sentence = f"{measured}; a step takes {step['ln'] / 1e3:.1f} ms, with RMSNorm {gain:.0%} less"
    return plain(low / operator <= share <= high / operator, measured, sentence)
