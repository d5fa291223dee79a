"""The signal inside a network: activations, gradients, attention, and the effect of batch statistics."""

import dataclasses
import itertools
import math
from contextlib import suppress
from typing import Any

import formulas
import pytest
import torch

from normexp.config.run import QK_NORMS, RunConfig
from normexp.model import precision
from normexp.model.network import Network, build
from normexp.records.record import Death
from normexp.training import loop as train_module
from normexp.training.divergence import locate_step, replay
from normexp.training.layer_signal import (
    Signal,
    attention_sizes,
    forward_signal,
    gradient_sizes,
    mode_signal,
    rms,
    signal_rows,
)
from normexp.training.loop import Training, train
from normexp.training.trainer import Trainer, kept_state

CONFIG = RunConfig(depth=3, width=16, hidden=16, heads=2, vocab=16)


def test_rms_is_accumulated_in_float64() -> None:
    assert rms(torch.full((10, 10), 1e30)) > 0.99e30
    assert rms(torch.tensor([3.0, 4.0])) == pytest.approx(12.5**0.5)


def test_activation_sizes_of_the_stream() -> None:
    network = build(CONFIG)
    tokens = torch.randint(0, 16, (4, 16), generator=torch.Generator().manual_seed(0))
    with forward_signal(network) as signal:
        network(tokens)
    sizes = signal["rms"]
    x = network.embedding(tokens) + network.positions.weight
    assert sizes[0, "stream"] == rms(x)
    for layer, block in enumerate(network.blocks.values(), start=1):
        mixed = block.mixer.f(block.mixer.before(x))
        assert sizes[layer, "mixer"] == rms(mixed)
        x = block(x)
        assert sizes[layer, "stream"] == rms(x)
    assert sizes[4, "stream"] == rms(network.final_norm(x))
    assert set(sizes) == {(0, "stream"), (4, "stream")} | {
        (n, p) for n in (1, 2, 3) for p in ("stream", "mixer", "ffn")
    }


def test_gradient_norms_of_each_branch() -> None:
    network = build(CONFIG)
    network(torch.zeros(2, 16, dtype=torch.long)).square().sum().backward()
    sizes = gradient_sizes(network)
    expected = sum(p.grad.double().pow(2).sum() for p in network.blocks["2"].ffn.parameters()).sqrt().item()
    assert abs(sizes[2, "ffn"] - expected) < 1e-12 * expected
    rows = signal_rows(7, {"rms": {(0, "stream"): 1.0}, "grad_norm": sizes})
    assert [(row.layer, row.part) for row in rows][:3] == [(0, "stream"), (1, "ffn"), (1, "mixer")]
    assert all(row.step == 7 for row in rows)


def test_hooks_are_removed_after_an_error() -> None:
    network = build(CONFIG)
    with pytest.raises(KeyError), forward_signal(network):
        raise KeyError
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_depth_0_has_a_stream() -> None:
    network = build(RunConfig(depth=0, width=8))
    with forward_signal(network) as signal:
        network(torch.zeros(2, 16, dtype=torch.long))
    assert set(signal) == {"rms"}
    assert set(signal["rms"]) == {(0, "stream"), (1, "stream")}
    assert gradient_sizes(network) == {}


def explicit_attention(run: RunConfig, network: Network, tokens: torch.Tensor) -> tuple[float, float]:
    """Return entropy and largest logit of layer 1 of a Pre-LN network, pair by pair in float64."""
    names = dict(build(dataclasses.replace(run, dtype="float32")).named_parameters())  # without wrappers of 16 bits
    parameters = {name: p.detach().double() for name, p in zip(names, network.parameters(), strict=True)}
    x = formulas.norm("ln", parameters, "blocks.1.mixer.before", embedded(network, tokens).double(), run.eps)
    q, k, _ = formulas.linear(parameters, "blocks.1.mixer.f.qkv", x).split(run.width, dim=-1)
    size = run.width // run.heads
    q, k = (part.view(*tokens.shape, run.heads, size) for part in (q, k))
    q = formulas.query_key(run, parameters, "blocks.1.mixer.f.q_norm", q)
    k = formulas.query_key(run, parameters, "blocks.1.mixer.f.k_norm", k)
    scale = 1.0 if run.qk_norm == "l2" else 1 / math.sqrt(size)
    entropies, largest = [], 0.0
    for b, head, t in itertools.product(range(tokens.shape[0]), range(run.heads), range(tokens.shape[1])):
        logits = [float(q[b, t, head] @ k[b, s, head]) * scale for s in range(t + 1)]
        largest = max(largest, *(abs(logit) for logit in logits))
        weights = [math.exp(logit) for logit in logits]
        if t > 0:
            entropies.append(-sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights))
    return sum(entropies) / len(entropies), largest


def embedded(network: Network, tokens: torch.Tensor) -> torch.Tensor:
    return (network.embedding(tokens) + network.positions.weight[: tokens.shape[1]]).detach()


def shaken(network: Network) -> Network:
    """Change gains, biases and scales from their initial values."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" in name or "before" in name:
                parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
    return network


def seen_by(network: Network, tokens: torch.Tensor, run: RunConfig) -> Signal:
    with forward_signal(network) as signal:
        precision.logits(network, tokens, run)
    return signal


TOKENS = torch.randint(0, 16, (3, 7), generator=torch.Generator().manual_seed(0))


class TestAttention:
    @pytest.mark.parametrize("qk_norm", QK_NORMS)
    @pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("bfloat16", 0.03), ("float16", 0.004)])
    def test_agrees_with_an_explicit_softmax(self, qk_norm: str, dtype: str, near: float) -> None:
        run = dataclasses.replace(CONFIG, qk_norm=qk_norm, dtype=dtype, depth=1, eps=1e-3, init_gain=2.0)
        network = shaken(build(run))
        signal = seen_by(network, TOKENS, run)
        entropy, largest = explicit_attention(run, network, TOKENS)
        assert signal["attention_entropy"] == {(1, "mixer"): pytest.approx(entropy, rel=near)}
        assert signal["max_logit"] == {(1, "mixer"): pytest.approx(largest, rel=near)}
        assert 0.1 < entropy < 1.5

    def test_the_entropy_of_uniform_attention(self) -> None:
        zero = torch.zeros(2, 3, 5, 4)
        entropy, largest = attention_sizes(zero, zero, None)
        assert entropy == pytest.approx(math.log(math.factorial(5)) / 4)
        assert largest == 0

    def test_masked_pairs_are_ignored(self) -> None:
        q, k = torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1)
        q[0, 0, 0], k[0, 0, 2], k[0, 0, 0] = 1.0, -100.0, -7.0
        assert attention_sizes(q, k, 1.0)[1] == 7
        assert attention_sizes(q, k, 1.0)[0] == pytest.approx((math.log(2) + math.log(3)) / 2)

    def test_a_single_token_has_no_entropy(self) -> None:
        one = torch.ones(2, 1, 1, 4)
        assert attention_sizes(one, one, None) == (0.0, 2.0)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_non_finite_values_are_results(self, value: float) -> None:
        network = build(CONFIG)
        with torch.no_grad():
            network.get_parameter("blocks.2.mixer.f.qkv.weight")[0, 0] = value
        signal = seen_by(network, TOKENS, CONFIG)
        assert math.isfinite(signal["max_logit"][1, "mixer"])
        assert not math.isfinite(signal["max_logit"][2, "mixer"])
        assert math.isnan(signal["attention_entropy"][2, "mixer"])

    def test_uses_the_normalized_queries(self) -> None:
        """The scheme's norms on q, k and v come first, and measuring runs no module twice."""
        run = dataclasses.replace(CONFIG, depth=1, position="hybrid", norm="bn")
        network = build(run)
        signal = seen_by(network, TOKENS, run)
        assert network.blocks["1"].mixer.f.qkv_norms[0].num_batches_tracked == 1
        q, k, _ = network.blocks["1"].mixer.f.queries_keys_values(embedded(network, TOKENS))
        expected = attention_sizes(q, k, None)
        assert (signal["attention_entropy"][1, "mixer"], signal["max_logit"][1, "mixer"]) == expected

    @pytest.mark.parametrize("mixer", ["mean", "linear"])
    def test_other_mixers_have_none(self, mixer: str) -> None:
        run = dataclasses.replace(CONFIG, mixer=mixer)
        assert set(seen_by(build(run), TOKENS, run)) == {"rms"}


SMALL: dict[str, Any] = {"depth": 1, "width": 16, "hidden": 16, "heads": 2, "vocab": 16, "order": 1}
BN = RunConfig(norm="bn", batch=4, steps=6, eval_every=3, **SMALL)


def trained_with(monkeypatch: pytest.MonkeyPatch, config: RunConfig) -> tuple[Training, Trainer]:
    trainers: list[Trainer] = []

    class Kept(Trainer):
        def __init__(self, config: RunConfig, **options: Any) -> None:
            super().__init__(config, **options)
            trainers.append(self)

    monkeypatch.setattr(train_module, "Trainer", Kept)
    return train(config), trainers[0]


class TestBatchNorm:
    @pytest.mark.parametrize("keys", [{}, {"dtype": "bfloat16"}, {"dtype": "bfloat16", "norm_dtype": "same"}])
    def test_evaluations_change_nothing(self, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]) -> None:
        """Neither weights nor running statistics depend on the number of evaluations."""
        (often, kept), (seldom, other) = (
            trained_with(monkeypatch, dataclasses.replace(BN, eval_every=every, **keys)) for every in (1, 1000)
        )
        assert torch.equal(kept.flat.values, other.flat.values)
        statistics = [dict(trainer.network.named_buffers()) for trainer in (kept, other)]
        assert len(statistics[0]) == 9
        assert all(torch.equal(values, statistics[1][name]) for name, values in statistics[0].items())
        counted = 0 if "norm_dtype" in keys else 6
        assert all(values == counted for name, values in statistics[0].items() if "tracked" in name)
        assert often.result.final_val_loss == seldom.result.final_val_loss
        last = [row for row in often.traces.layers if row.step == 6]
        assert last == [row for row in seldom.traces.layers if row.step == 6]

    def test_buffers_are_restored_after_an_error(self) -> None:
        network = build(BN)
        before = network.final_norm.running_mean.clone()
        with suppress(KeyError), kept_state(network):
            network.final_norm(torch.full((2, 3, 16), math.nan))
            assert network.final_norm.running_mean.isnan().all()
            raise KeyError
        assert torch.equal(network.final_norm.running_mean, before)

    def test_leak_and_losses_are_rows_of_the_logits(self) -> None:
        rows = [row for row in train(BN).traces.layers if row.part == "logits"]
        assert {row.layer for row in rows} == {2}
        quantities = ("leak", "train_mode_loss", "eval_mode_loss")
        assert {(row.step, row.quantity) for row in rows} == {(step, name) for step in (0, 3, 6) for name in quantities}

    def test_the_leak_is_the_largest_change_before_the_middle(self) -> None:
        trainer = Trainer(BN)
        tokens = torch.from_numpy(trainer.signal_batch.inputs_nt)
        changed = torch.cat([tokens[:, :8], (tokens[:, 8:] + 1) % 16], dim=1)
        network = build(BN)
        expected = max(abs(float(change)) for change in (network(changed) - network(tokens))[:, :8].detach().flatten())
        signal = mode_signal(trainer, trainer.signal_batch)
        assert signal["leak"][2, "logits"] == pytest.approx(expected, rel=1e-6)
        assert expected > 0.1
        assert trainer.network.training
        assert signal["train_mode_loss"][2, "logits"] == trainer.loss(trainer.signal_batch).item()
        fresh = Trainer(BN)
        fresh.network.eval()
        assert signal["eval_mode_loss"][2, "logits"] == fresh.loss(trainer.signal_batch).item()

    @pytest.mark.parametrize(("norm", "final_norm"), [("ln", "ln"), ("none", "rms"), ("none", "none")])
    def test_causal_norms_have_no_such_rows(self, norm: str, final_norm: str) -> None:
        trainer = Trainer(dataclasses.replace(CONFIG, norm=norm, final_norm=final_norm))
        assert mode_signal(trainer, trainer.signal_batch) == {}

    def test_a_final_norm_alone_can_leak(self) -> None:
        trainer = Trainer(dataclasses.replace(CONFIG, final_norm="bn", depth=0))
        assert mode_signal(trainer, trainer.signal_batch)["leak"][1, "logits"] > 0

    def test_a_replay_gives_the_rows_of_an_evaluation(self) -> None:
        death = Death(step=6, kind="nan", where="loss", tensor="loss", layer=2)
        rows = replay(BN, death)
        quantities = {(row.part, row.quantity) for row in rows if row.step == 6 and row.layer > 0}
        at_evaluation = {(row.part, row.quantity) for row in train(BN).traces.layers if row.layer > 0}
        assert quantities == at_evaluation

    def test_locating_the_bad_tensor_keeps_the_statistics(self) -> None:
        trainer = Trainer(BN)
        batch = next(trainer.task.batches(0, 4))
        step = trainer.step(1, batch)
        counted = trainer.network.final_norm.num_batches_tracked.clone()
        locate_step(trainer, 1, batch, "loss", step.loss)
        assert trainer.network.final_norm.num_batches_tracked == counted == 1
