"""The literature's predictions of gradients at initialization, each as a quantity with a tolerance.

W2 is the second matrix of the FFN. Papers are given by their arXiv numbers.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from normexp.texts.papers.initial import (
    DEPTHS,
    SEEDS,
    first_norm_gradients,
    geometric,
    network,
    slope,
    spread,
    times_root,
    w2_gradients,
)
from normexp.texts.papers.initial_w2 import (
    expected_gradients,
    growth_with_h,
    last_w2_gradients,
    of_one_position,
    top_layer_gradients,
    top_over_bottom,
)
from normexp.training.trainer import Trainer


class TestGradients:
    def test_pre_last_gradient_falls_as_root_of_depth(self) -> None:
        """2002.04745, Theorem 1: for one position, the last layer's |dL/dW2| is O(1 / sqrt(L))."""
        assert spread(times_root(last_w2_gradients("pre", SEEDS))) < 1.2
        assert slope(last_w2_gradients("pre", SEEDS)) == pytest.approx(-0.5, abs=0.1)

    def test_post_last_gradient_does_not_fall(self) -> None:
        """2002.04745, Theorem 1: it does not depend on L, so times sqrt(L) it rises."""
        assert spread(last_w2_gradients("post", SEEDS)) < 1.2
        assert slope(last_w2_gradients("post", SEEDS)) == pytest.approx(0.0, abs=0.1)
        assert spread(times_root(last_w2_gradients("post", SEEDS))) > 2.5

    @pytest.mark.slow
    def test_of_expected_gradients_in_the_last_layer(self) -> None:
        """2002.04745, Figures 3c and 3d, mean gradient of mini-batches: Post's even grows with L, Pre's falls."""
        found = {
            position: [
                geometric(expected_gradients(network(position, depth, seed))[-1] for seed in range(9))
                for depth in DEPTHS
            ]
            for position in ("post", "pre")
        }
        assert 0.1 < slope(found["post"]) < 0.4
        assert -0.5 < slope(found["pre"]) < -0.25

    def test_of_one_position_is_what_autograd_says(self) -> None:
        config = network("post", 2, 0)
        trainer = Trainer(config)
        weight = trainer.network.get_parameter("blocks.2.ffn.f.fc2.weight")
        batch = trainer.signal_batch
        logits_btv = trainer.network(torch.from_numpy(batch.inputs_nt[:2]))[:, trainer.task.first :]
        targets_bt = torch.from_numpy(batch.targets_nt[:2, trainer.task.first :])
        losses = functional.cross_entropy(logits_btv.flatten(0, 1), targets_bt.flatten(), reduction="none")
        squares = [float(torch.autograd.grad(loss, weight, retain_graph=True)[0].square().sum()) for loss in losses]
        assert of_one_position(replace(config, batch=2)) == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-5)

    @pytest.mark.slow
    def test_post_rises_with_the_layer(self) -> None:
        """2002.04745, Figure 3: in Post the expected gradient of W2 grows with the layer's index."""
        found = [top_over_bottom("post", seed) for seed in range(6)]
        assert 1.5 < geometric(found) < 4
        assert min(found) > max(top_over_bottom("pre", seed) for seed in SEEDS)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_pre_falls_with_the_layer(self, seed: int) -> None:
        """2002.04745, Figure 3, shows Pre's expected gradient of W2 as flat over layers, but here it falls.

        2203.00555, section 1, also has larger gradients in Pre's first layers.
        """
        assert 0.3 < top_over_bottom("pre", seed) < 0.65

    def test_of_narrower_layers_are_smaller(self) -> None:
        """2203.00555, section 3: they are much larger in training. Before it they are smaller, and equal at all L."""
        narrowed, plain = (top_layer_gradients(SEEDS, narrowed=value) for value in (True, False))
        assert all(one < 0.8 * other for one, other in zip(narrowed, plain, strict=True))
        assert spread(narrowed) < 1.1

    def test_grow_with_h_where_no_norm_is_behind(self) -> None:
        """2502.02732, Proposition 3.1: in proportion; a final norm divides by what h adds to the stream."""
        assert growth_with_h("pre", [32.0], SEEDS)[0] == pytest.approx(32, rel=0.5)
        assert 1.5 < growth_with_h("pre", [32.0], SEEDS, final_norm="ln")[0] < 2.5
        assert growth_with_h("sandwich", [32.0], SEEDS)[0] == pytest.approx(1, rel=0.01)

    def test_of_the_embedding_are_1_over_its_std(self) -> None:
        """2312.16903: the first norm divides by the standard deviation of what it reads."""
        one, tenth = first_norm_gradients((1.0, 0.1))
        assert tenth / one == pytest.approx(10, rel=0.1)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_deepnorm_is_equal_over_layers(self, seed: int) -> None:
        """2203.00555, section 4.3 (what its constants aim at): W2's gradient is the same in every layer.

        Its size: beta / alpha = 1 / (2 sqrt(L)), up to a constant.
        """
        assert all(spread(w2_gradients("deepnorm", depth, seed)) < 1.2 for depth in DEPTHS)
        assert spread(times_root(w2_gradients("deepnorm", depth, seed)[-1] for depth in DEPTHS)) < 1.2
