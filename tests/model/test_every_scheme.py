"""Tests of every row of the tables: scheme x norm x mixer, and every norm on queries and keys."""

import math

import formulas
import pytest
import torch
import yaml
from torch import Tensor, nn

from normexp.config import grid, sweep_file
from normexp.config.run import MIXERS, QK_NORMS, RunConfig
from normexp.model.network import Network, build
from normexp.model.norms import MODULES, make_norm
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES, Site
from normexp.training.trainer import Trainer

ALL_NORMS = ("none", *NORMS)
NORM_TYPES = tuple(type(make_norm(name, 4, RunConfig())) for name in NORMS)
NORMS_PER_BLOCK = {"sandwich": 4, "subln": 4, "rezero": 0, "hybrid": 1}
"""Norms of a block whose mixer is not attention, if not 2."""
BOUNDED_WITHOUT_NORM = {"rezero", "lns", "residual_scaled"}
"""Schemes whose scales bound the residual stream: its variance grows at most as a power of the depth."""


def norm_modules(network: nn.Module) -> list[str]:
    return [name for name, module in network.named_modules() if isinstance(module, NORM_TYPES)]


def tokens(b: int = 2, t: int = 16, vocab: int = 11) -> Tensor:
    return torch.randint(0, vocab, (b, t), generator=torch.Generator().manual_seed(0))


def small(mixer: str, position: str, norm: str, **rest: object) -> RunConfig:
    keys = {"depth": 4, "width": 16, "hidden": 24, "vocab": 11, **rest}
    return RunConfig(mixer=mixer, position=position, norm=norm, **keys)  # type: ignore[arg-type]


def shuffled(network: Network) -> Network:
    """Return the network in float64 with random numbers in every parameter."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.1 + 0.05)
    return network


def parameters_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in network.named_parameters()}


def changed_at(network: nn.Module, where: slice) -> Tensor:
    """Return which logits (b, t) change when the tokens at `where` do."""
    before, after = tokens(), tokens()
    after[:, where] = (after[:, where] + 1) % 11
    return (network(before) != network(after)).any(dim=2)


def test_the_formulas_and_modules_cover_every_row() -> None:
    assert set(formulas.SCHEMES) == set(SCHEMES)
    assert {name for name, scheme in SCHEMES.items() if scheme.final_norm} == formulas.FINAL
    assert set(MODULES) == set(NORMS)


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", ALL_NORMS)
class TestEveryNetwork:
    def test_agrees_with_its_formula_in_float64(self, mixer: str, position: str, norm: str) -> None:
        run = small(mixer, position, norm, eps=1e-3)
        network = shuffled(build(run))
        expected = formulas.logits(run, parameters_of(network), tokens(t=9))
        actual = network(tokens(t=9))
        assert actual.shape == (2, 9, 11)
        assert (actual - expected).abs().max() <= 1e-11 * (1 + expected.abs().max())

    def test_logits_depend_on_later_tokens_only_with_batch_norm(self, mixer: str, position: str, norm: str) -> None:
        network = build(small(mixer, position, norm))
        run = network.config
        leaks = not all(NORMS[used].causal for used in {run.norm, run.final_norm} - {"none"} if norm_modules(network))
        changed = changed_at(network, slice(9, None))
        assert changed[:, 9:].all()
        assert changed[:, :9].any() == leaks
        network.eval()
        assert not changed_at(network, slice(9, None))[:, :9].any()

    def test_every_parameter_gets_a_gradient(self, mixer: str, position: str, norm: str) -> None:
        network = build(small(mixer, position, norm))
        network(tokens()).square().sum().backward()
        assert [name for name, p in network.named_parameters() if p.grad is None] == []

    def test_norms_are_at_the_sites_of_the_scheme(self, mixer: str, position: str, norm: str) -> None:
        names = norm_modules(build(small(mixer, position, norm)))
        assert ("final_norm" in names) == (norm != "none" and position in formulas.FINAL)
        inside = 0 if norm == "none" else NORMS_PER_BLOCK.get(position, 2)
        inside += 3 * (position == "hybrid" and mixer == "attention" and norm != "none")
        assert len([name for name in names if name != "final_norm"]) == 4 * inside

    def test_gains_biases_and_scalars_do_not_decay(self, mixer: str, position: str, norm: str) -> None:
        run = small(mixer, position, norm, depth=2, optimizer="sgd", lr=0.5, weight_decay=1.0)
        trainer = Trainer(run)
        before = {name: p.detach().clone() + 1 for name, p in trainer.network.named_parameters()}
        trainer.flat.values += 1
        trainer.flat.grads.zero_()
        trainer.optimizer.step(run.lr)
        for name, parameter in trainer.network.named_parameters():
            decays = name.endswith("weight") and parameter.dim() == 2
            assert torch.equal(parameter, before[name] * 0.5 if decays else before[name]), name


@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", ALL_NORMS)
class TestEveryScheme:
    def test_64_layers_are_finite_if_the_scheme_is_bounded(self, position: str, norm: str) -> None:
        network = build(small("attention", position, norm, depth=64, init="xavier", width=32, hidden=32))
        logits = network(tokens())
        logits.square().sum().backward()
        bounded = norm != "none" or position in BOUNDED_WITHOUT_NORM
        assert bool(torch.isfinite(logits).all() and logits.abs().max() < 1e4) == bounded
        if bounded:
            assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)

    def test_every_depth_keeps_the_shape_of_the_tokens(self, position: str, norm: str) -> None:
        for depth in (0, 1, 2):
            logits = build(small("attention", position, norm, depth=depth, heads=2))(tokens(b=3, t=5))
            assert logits.shape == (3, 5, 11)

    def test_a_config_survives_a_round_trip_through_yaml(self, position: str, norm: str) -> None:
        run = small("attention", position, norm, qk_norm="l2", dtype="bfloat16", norm_dtype="same", post_share=0.5)
        text = yaml.safe_dump({"name": "round", "base": run.to_dict()})
        points = grid.plan(sweep_file.parse(text, origin="round.yaml")).points
        assert [point.config for point in points] == [run.canonical()]

    def test_16_bit_networks_train(self, position: str, norm: str) -> None:
        losses = {}
        for dtype in ("float32", "bfloat16"):
            run = small("attention", position, norm, depth=2, order=1, dtype=dtype, batch=8)
            trainer = Trainer(run)
            batch = next(trainer.task.batches(0, 8))
            losses[dtype] = [trainer.step(step, batch).loss for step in (1, 2, 3)]
            assert {p.dtype for p in trainer.network.parameters()} == {torch.float32}
        assert losses["bfloat16"] != losses["float32"]
        assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.1)


DEEP = {
    "deepnorm": {"skip": 2.5149, "gain_v": 0.28117, "gain_out": 0.28117, "gain_fc1": 0.28117, "gain_fc2": 0.28117},
    "glm": {"skip": 6.3246, "gain_v": 0.15811, "gain_out": 0.15811, "gain_fc1": 0.15811, "gain_fc2": 0.15811},
    "subln": {"gain_v": 1.92064, "gain_out": 1.92064, "gain_fc1": 1.92064, "gain_fc2": 1.92064},
    "residual_scaled": {"branch_out": 0.15811},
    "lns": {"branch_in": 0.44721},
    "rezero": {"branch_out": 0.0},
    "b2t": {"bottom": 1.0},
}
"""Constants other than 1 (bottom: 0) at depth 20, FFN of layer 5, computed by hand from the papers' formulas."""


@pytest.mark.parametrize("position", SCHEMES)
def test_constants_of_20_layers(position: str) -> None:
    plain = dict.fromkeys(("skip", "branch_in", "branch_out", *(f"gain_{r}" for r in ("q", "k", "v", "out"))), 1.0)
    expected = plain | {"gain_fc1": 1.0, "gain_fc2": 1.0, "bottom": 0.0} | DEEP.get(position, {})
    assert SCHEMES[position].constants(Site(5, 20, "ffn")) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("position", SCHEMES)
def test_gains_scale_the_weights_of_their_roles(position: str) -> None:
    plain, scaled = (parameters_of(build(RunConfig(depth=20, position=p, norm="ln"))) for p in ("pre", position))
    numbers = SCHEMES[position].constants(Site(5, 20))
    qkv = plain["blocks.5.mixer.f.qkv.weight"].chunk(3)
    for role, part, actual in zip("qkv", qkv, scaled["blocks.5.mixer.f.qkv.weight"].chunk(3), strict=True):
        assert torch.allclose(actual, part * numbers[f"gain_{role}"])
    for role, name in (("out", "mixer.f.out"), ("fc1", "ffn.f.fc1"), ("fc2", "ffn.f.fc2")):
        expected = plain[f"blocks.5.{name}.weight"] * numbers[f"gain_{role}"]
        assert torch.allclose(scaled[f"blocks.5.{name}.weight"], expected)


@pytest.mark.parametrize(("depth", "share", "post"), [(12, 0.25, 3), (24, 0.25, 6), (20, 0.0, 0), (100, 0.29, 29)])
def test_mix_uses_post_in_its_first_layers(depth: int, share: float, post: int) -> None:
    scheme = SCHEMES["mix"]
    doors = [scheme.doors(site) for site in scheme.sites(RunConfig(depth=depth, post_share=share))]
    assert doors == [{"after"}] * 2 * post + [{"before"}] * 2 * (depth - post)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_post_share_affects_the_network(share: float) -> None:
    run = small("mean", "mix", "ln", post_share=share)
    network = shuffled(build(run))
    expected = formulas.logits(run, parameters_of(network), tokens())
    assert (network(tokens()) - expected).abs().max() <= 1e-11 * (1 + expected.abs().max())


def test_dyt_alpha_affects_the_network() -> None:
    network = build(small("attention", "sandwich", "dyt", dyt_alpha=2.0))
    alphas = [parameter.item() for name, parameter in network.named_parameters() if name.endswith("alpha")]
    assert alphas == [2.0] * 17


def test_only_the_ffn_reads_the_input_of_the_block() -> None:
    block = build(small("attention", "b2t", "ln")).blocks["1"]
    assert block.mixer.bottom is None
    assert block.ffn.bottom is not None


def test_rezero_starts_as_the_identity_and_has_one_scalar_per_layer() -> None:
    run = small("attention", "rezero", "ln")
    network = build(run)
    names = [name for name, _ in network.named_parameters() if name.endswith("factor")]
    assert names == [f"blocks.{layer}.mixer.branch_out.factor" for layer in range(1, 5)]
    x = network.embedding(tokens()) + network.positions.weight
    assert torch.equal(network(tokens()), network.head(x))


@pytest.mark.parametrize("qk_norm", QK_NORMS)
class TestEveryQKNorm:
    def test_agrees_with_its_formula_in_float64(self, qk_norm: str) -> None:
        run = small("attention", "pre", "ln", qk_norm=qk_norm, eps=1e-3)
        network = shuffled(build(run))
        expected = formulas.logits(run, parameters_of(network), tokens())
        assert (network(tokens()) - expected).abs().max() <= 1e-11 * (1 + expected.abs().max())

    def test_invariance_to_the_magnitude_of_queries_and_keys(self, qk_norm: str) -> None:
        attention = build(small("attention", "pre", "ln", qk_norm=qk_norm, eps=0.0)).blocks["1"].mixer.f
        x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
        before = attention(x)
        with torch.no_grad():
            attention.qkv.weight[:32] *= 7.0
        assert torch.allclose(attention(x), before, atol=1e-5) == (qk_norm != "none")

    def test_number_of_parameters(self, qk_norm: str) -> None:
        attention = build(small("attention", "pre", "ln", qk_norm=qk_norm)).blocks["1"].mixer.f
        count = sum(p.numel() for part in (attention.q_norm, attention.k_norm) for p in part.parameters())
        assert count == {"none": 0, "rms": 2 * 4, "ln": 4 * 4, "full": 2 * 16, "l2": 1}[qk_norm]

    def test_norm_none_only_keeps_the_qk_norm(self, qk_norm: str) -> None:
        names = norm_modules(build(small("attention", "pre", "none", qk_norm=qk_norm)))
        assert (names == []) == (qk_norm in ("none", "l2"))


def test_the_scale_of_cosine_attention_depends_on_the_sequence_length() -> None:
    attention = build(small("attention", "pre", "ln", qk_norm="l2")).blocks["1"].mixer.f
    assert attention.q_norm.gain.item() == pytest.approx(math.log2(16 * 16 - 16))


class TestBatchNorm:
    @pytest.mark.parametrize("norm_dtype", ["float32", "same"])
    def test_training_and_evaluation_differ_until_the_statistics_converge(self, norm_dtype: str) -> None:
        run = small("attention", "pre", "bn", order=1, dtype="bfloat16", norm_dtype=norm_dtype)
        norm = build(run).blocks["1"].mixer.before
        x = torch.randn(64, 16, 16, generator=torch.Generator().manual_seed(0)).bfloat16() * 3 + 2
        norm.eval()
        assert (norm(x) - x).abs().max() < 0.1
        norm.train()
        gap = [(norm(x).float() - norm.eval()(x).float()).abs().max().item() for _ in range(60) if norm.train()]
        assert gap[0] > 1
        assert gap[-1] < 0.2
        assert gap[-1] < gap[10] < gap[0]
