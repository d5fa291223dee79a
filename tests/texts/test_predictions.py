"""The literature's predictions of networks at initialization, each as a quantity with a tolerance.

Tolerances come from formulas where possible, with a margin for three seeds at width 64. Where a measurement contradicts
the paper, the test asserts the measurement and says so. Papers are given by their arXiv numbers.
"""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prediction_table import table, verdicts

from normexp.model import branches
from normexp.texts.papers import initial
from normexp.texts.papers.initial import (
    DEPTHS,
    SEEDS,
    TORCH,
    UNIT_FFN,
    UNIT_MIXER,
    WIDTH,
    before_norms,
    expected_squares,
    first_q_gradients,
    fit_of_line,
    geometric,
    log2_growth,
    mean_squares,
    seen,
    sgd_updates,
    skip_factor,
    slope,
    spread,
    top_cosine,
    top_cosines,
    w2_gradients,
)
from normexp.texts.papers.outputs import heavy_rows, largest_output, normalized, rms_statistics


def ffn_share(hidden: int) -> float:
    """Return the mean square of an FFN's output (ReLU, Xavier weights) for input of mean square 1: 2dh / (d + h)^2."""
    return 2 * WIDTH * hidden / (WIDTH + hidden) ** 2


class TestStream:
    @pytest.mark.parametrize(("hidden", "depth"), [(WIDTH, 20), (2 * WIDTH, 40)])
    def test_pre_grows_linearly(self, hidden: int, depth: int) -> None:
        """2002.04745, Lemma 2: the mean square after layer l is between 1 + l/2 and 1 + 3l/2.

        The FFN adds 1/2 where it is as wide as the stream, 2dh / (d + h)^2 = 4/9 at h = 2d; attention, which averages
        values, adds at most 1. Scatter of the embedding: 0.03.
        """
        share = ffn_share(hidden)
        for layer, value in enumerate(expected_squares("pre", depth, hidden=hidden)):
            assert 1 + share * layer - 0.03 < value < 1 + (1 + share) * layer + 0.03
        fits = [fit_of_line(mean_squares("pre", depth, seed, hidden=hidden)) for seed in SEEDS]
        assert all(straight > 0.98 for _, straight in fits)
        assert all(share < steepness < 1.1 * (1 + share) for steepness, _ in fits)

    @pytest.mark.parametrize(("hidden", "depth"), [(WIDTH, 20), (2 * WIDTH, 40)])
    def test_an_ffn_adds_what_its_shape_says(self, hidden: int, depth: int) -> None:
        """2002.04745, Lemma 2: mean FFN(x)^2 is 1/2 with Xavier weights, relu and h = d; else 2dh / (d + h)^2."""
        networks = [seen("pre", depth, seed, hidden=hidden) for seed in SEEDS]
        found = [rows["ffn", "rms", layer] ** 2 for rows in networks for layer in range(1, depth + 1)]
        assert np.mean(found) == pytest.approx(ffn_share(hidden), rel=0.05)

    def test_post_stays_at_1(self) -> None:
        """2002.04745, Lemma 2: mean square 1 after each norm, 3/2 before an FFN's (h = d)."""
        for depth, seed in itertools.product(DEPTHS, SEEDS):
            assert mean_squares("post", depth, seed)[1:] == pytest.approx([1.0] * depth, rel=1e-3)
        assert np.mean([before_norms("ffn", seed, hidden=WIDTH) for seed in SEEDS]) == pytest.approx(1.5, rel=0.03)

    @pytest.mark.slow
    def test_sandwich_is_1_plus_2l(self) -> None:
        """2502.02732, equation 4: each layer adds two outputs of variance 1, so the mean square is 1 + 2l.

        Outputs are independent only on average over weights: a single seed is within a quarter of the value.
        """
        for layer, value in enumerate(expected_squares("sandwich", 40, range(16))):
            assert value == pytest.approx(1 + 2 * layer, rel=0.1)
        for seed in SEEDS:
            assert mean_squares("sandwich", 40, seed)[-1] == pytest.approx(81, rel=0.25)
            assert fit_of_line(mean_squares("sandwich", 40, seed))[1] > 0.98

    @pytest.mark.slow
    def test_lns_grows_as_the_harmonic_sum(self) -> None:
        """2502.05795, Lemma 4.1: at most L^(2 - e). At initialization it is far less: layer l adds 1/l of what it adds
        in Pre, so the mean square is between 1 + 4/9 H_l and 1 + 13/9 H_l, H_l = 1 + 1/2 + ... + 1/l.

        The price: the last layer's queries get a gradient of a hundredth of the first's and less.
        """
        share, harmonic = ffn_share(2 * WIDTH), np.cumsum([0.0, *(1 / layer for layer in range(1, 41))])
        for level, value in zip(harmonic, expected_squares("lns", 40), strict=True):
            assert 1 + share * level - 0.03 < value < 1 + (1 + share) * level + 0.03
        ends = (4, 40)
        growth = {name: slope((expected_squares(name, n)[-1] for n in ends), ends) for name in ("lns", "pre")}
        assert 0.1 < growth["lns"] < 0.5
        assert 0.8 < growth["pre"] < 1.2
        for seed in SEEDS:
            found = seen("lns", 40, seed)
            assert found["q", "grad_norm", 40] < 0.01 * found["q", "grad_norm", 1]


class TestSkipPath:
    """2002.04745, Lemma 3: one norm of Post multiplies the skip path by 1 / sqrt(1 + variance of the branch)."""

    def test_shrinks_by_the_root_of_two_thirds_after_an_ffn(self) -> None:
        """Appendix F: an FFN has variance 1/2 with Xavier weights (h = d)."""
        assert skip_factor("ffn", hidden=WIDTH) == pytest.approx(math.sqrt(2 / 3), rel=0.02)

    @pytest.mark.parametrize(("branch", "keys"), [("mixer", UNIT_MIXER), ("ffn", UNIT_FFN)])
    def test_shrinks_by_root_2_where_branches_have_variance_1(self, branch: str, keys: dict[str, Any]) -> None:
        assert skip_factor(branch, **keys) == pytest.approx(2**-0.5, rel=0.02)

    @pytest.mark.parametrize(("branch", "variance"), [("mixer", 1 / 3), ("ffn", 1 / 18)])
    def test_hardly_shrinks_with_weights_of_torch(self, branch: str, variance: float) -> None:
        """Weights uniform in +-1/sqrt(n) have variance 1/(3n): a matrix leaves 1/3, an FFN 1/3 * 1/2 * 1/3."""
        found = skip_factor(branch, **TORCH)
        assert found == pytest.approx((1 + variance) ** -0.5, rel=0.01)

    def test_then_gradients_are_flat(self) -> None:
        """Hence the layers of a Post network without attention have equal gradients with these weights."""
        for seed in SEEDS:
            gradients = w2_gradients("post", 20, seed, **TORCH)
            assert 0.8 < geometric(gradients[-3:]) / geometric(gradients[:3]) < 1.25


@pytest.mark.slow
class TestRankCollapse:
    """2206.03126, abstract: tokens become equal and gradients of queries vanish; scaled branches prevent it."""

    def test_of_post(self) -> None:
        for seed in SEEDS:
            assert top_cosine("post", 4, seed) < 0.9
            assert all(top_cosine("post", depth, seed) > 0.99 for depth in (16, 40))
        gradients = first_q_gradients("post")
        assert gradients == sorted(gradients, reverse=True)
        assert gradients[0] > 100 * gradients[-1]

    @pytest.mark.slow
    def test_of_deeper_post(self) -> None:
        shallow, deep = first_q_gradients("post", (4, 64))
        assert shallow > 1e4 * deep

    def test_of_queries_gradients_is_less_in_b2t(self) -> None:
        """2206.00330: B2T loses less of them with depth, but some."""
        found = first_q_gradients("b2t")
        assert 4 < found[0] / found[-1] < 10

    def test_of_pre_is_slow(self) -> None:
        cosines = top_cosines("pre")
        assert cosines == sorted(cosines)
        assert 0.35 < cosines[0] < cosines[-1] < 0.95
        assert spread(first_q_gradients("pre")) < 3

    @pytest.mark.parametrize(
        ("position", "cosine", "power"), [("residual_scaled", 0.2, -0.5), ("deepnorm", 0.05, -0.75)]
    )
    def test_is_prevented(self, position: str, cosine: float, power: float) -> None:
        """Tokens stay apart at every depth, and the gradient falls with the branch's scale alone: 1 / sqrt(2L);
        DeepNorm's beta^2 / alpha, of the order of L^(-3/4)."""
        for depth, seed in itertools.product(DEPTHS, SEEDS):
            assert top_cosine(position, depth, seed) < cosine
        assert slope(first_q_gradients(position)) == pytest.approx(power, abs=0.08)


class TestUpdate:
    """2203.00555, Theorem 4.2 and Figure 5: |F(theta - eta g) - F(theta)| of one SGD step at 1e-2, matrices only."""

    def test_of_deepnorm_does_not_depend_on_depth(self) -> None:
        assert slope(sgd_updates("deepnorm")) == pytest.approx(0.0, abs=0.1)
        assert spread(sgd_updates("deepnorm")) < 1.25

    @pytest.mark.slow
    def test_of_post_grows_the_most(self) -> None:
        """It grows at least as L, here faster, until saturation after the last norm. Pre is in between."""
        post, pre = slope(sgd_updates("post")), slope(sgd_updates("pre"))
        assert 1.0 < post < 2.0
        assert 0.4 < pre < 0.8
        assert all(
            a < b < c for a, b, c in zip(sgd_updates("deepnorm"), sgd_updates("pre"), sgd_updates("post"), strict=True)
        )


class TestWithoutNorm:
    """Each sublayer multiplies the mean square by 1 + its gain: 2 for attention whose tokens are one, 2 for a matrix
    alone; 1 + 2dh / (d + h)^2 for an FFN with Xavier weights, so not quite the doubling per sublayer often told."""

    @pytest.mark.parametrize(
        ("keys", "factors"),
        [
            ({}, (2, 13 / 9)),
            ({"mixer": "linear", "hidden": WIDTH}, (2, 3 / 2)),
            (TORCH, (1 + 1 / 3, 1 + 1 / 18)),
        ],
        ids=["attention", "matrix and narrow FFN", "weights of torch"],
    )
    def test_the_stream_grows_exponentially(self, keys: dict[str, Any], factors: tuple[float, float]) -> None:
        grown = [log2_growth(20, seed, **keys) for seed in SEEDS]
        assert np.mean(grown) == pytest.approx(math.log2(math.prod(factors)), rel=0.06)

    def test_gradients_are_useless_before_the_first_update(self) -> None:
        for seed in SEEDS:
            assert 1e4 < seen("pre", 20, seed, norm="none")["fc2", "grad_norm", 1] < math.inf
            assert 1e6 < seen("pre", 40, seed, norm="none")["fc2", "grad_norm", 1] < math.inf
            assert seen("pre", 40, seed)["fc2", "grad_norm", 1] < 1

    def test_a_fused_kernel_makes_them_nan(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The kernel recomputes the softmax in its backward pass, from logits with large rounding errors."""
        monkeypatch.setattr(branches, "LONGEST", 0)
        found = initial._seen.__wrapped__(initial.network("pre", 40, SEEDS[0], norm="none"))
        assert math.isnan(found["fc2", "grad_norm", 1])


class TestNormOutputs:
    @pytest.mark.parametrize(("mean", "std"), [(0.5, 1.0), (0.0, 3.0), (-2.0, 0.5)])
    def test_of_rms_norm_keep_the_ratio_of_mean_and_std(self, mean: float, std: float) -> None:
        """Closed form: for N(m, s^2), the output has mean m / sqrt(m^2 + s^2) and std s / sqrt(m^2 + s^2)."""
        root = math.hypot(mean, std)
        assert rms_statistics(mean, std) == pytest.approx((mean / root, std / root), abs=0.003)

    @pytest.mark.parametrize(("norm", "bound"), [("rms", math.sqrt(WIDTH)), ("ln", math.sqrt(WIDTH - 1))])
    def test_are_bounded(self, norm: str, bound: float) -> None:
        """Closed form: no output exceeds sqrt(d) for RMSNorm or sqrt(d - 1) for LayerNorm; one spike reaches it."""
        assert largest_output(norm) == pytest.approx(bound, rel=1e-12)
        largest = float(normalized(norm, heavy_rows(0)).abs().max())
        assert 0.9 * bound < largest <= bound * (1 + 1e-12)


@pytest.mark.slow
def test_every_claim_comes_out_as_expected_and_as_the_page_has_it() -> None:
    lines = table().splitlines()
    assert {v.claim.id: (v.word,) for v in verdicts()} == {v.claim.id: v.claim.expected.words for v in verdicts()}
    assert len(lines) == len(verdicts()) + 2
    assert {line.count("|") for line in lines} == {6}
    shown = (Path(__file__).parents[2] / "docs" / "predictions.md").read_text("utf-8")
    stated = [line.rsplit("|", 2)[0] for line in lines]
    assert [line.rsplit("|", 2)[0] for line in shown.splitlines() if line.startswith("|")] == stated
