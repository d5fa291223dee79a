"""Measurements of one network, each compared with an independent computation."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import cache

import formulas
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from normexp.config.run import RunConfig
from normexp.model.network import Network, build
from normexp.records.record import SignalRow
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES
from normexp.training.inspection import inspect, inspect_trainer, restore, retrain, token_cosine
from normexp.training.loop import train
from normexp.training.trainer import Trainer
from normexp.training.weights import weights_bytes

TINY = RunConfig(depth=2, width=8, hidden=8, heads=2, vocab=8, seq_len=6, batch=4, order=1, lr=1e-2)
MATRICES = ("q", "k", "v", "out", "fc1", "fc2")
UPDATES = ("update", "relative_update", "sgd_update")
Found = dict[tuple[int, str, str], float]


def by_key(rows: list[SignalRow]) -> Found:
    return {(row.layer, row.part, row.quantity): row.value for row in rows}


@cache
def measured(run: RunConfig = TINY) -> Found:
    return by_key(inspect(run))


def batch(run: RunConfig) -> tuple[Tensor, Tensor]:
    signal = Trainer(run).signal_batch
    return torch.from_numpy(signal.inputs_nt), torch.from_numpy(signal.targets_nt)


def gradients(run: RunConfig, network: Network) -> dict[str, Tensor]:
    """Return gradients by plain autograd."""
    tokens, targets = batch(run)
    logits = network(tokens)[:, run.order - 1 :]
    loss = functional.cross_entropy(logits.flatten(0, 1), targets[:, run.order - 1 :].flatten())
    names = dict(network.named_parameters())
    return dict(zip(names, torch.autograd.grad(loss, list(names.values())), strict=True))


def stream(network: Network, tokens: Tensor) -> dict[tuple[int, str], Tensor]:
    """Return the residual stream layer by layer, and the logits."""
    with torch.no_grad():
        x = network.embedding(tokens) + network.positions.weight[: tokens.shape[1]]
        values = {(0, "stream"): x}
        for layer, block in enumerate(network.blocks.values(), start=1):
            x = block(x)
            values[layer, "stream"] = x
        last = len(network.blocks) + 1
        values[last, "stream"] = network.final_norm(x)
        values[last, "logits"] = network.head(values[last, "stream"])
    return values


def mean_square(values: Tensor) -> float:
    numbers = values.flatten().tolist()
    return sum(number * number for number in numbers) / len(numbers)


def test_sizes_of_the_stream_and_cosines_of_tokens() -> None:
    for (layer, part), values in stream(build(TINY), batch(TINY)[0]).items():
        assert measured()[layer, part, "mean_square"] == pytest.approx(mean_square(values), rel=1e-6)
        assert measured()[layer, part, "rms"] == pytest.approx(math.sqrt(mean_square(values)), rel=1e-6)
        if part == "stream":
            assert measured()[layer, part, "token_cosine"] == pytest.approx(cosine_by_loops(values), rel=1e-5)


def cosine_by_loops(x_btd: Tensor) -> float:
    cosines = []
    for x_td in x_btd.double():
        for a, b in itertools.combinations(x_td, 2):
            cosines.append(float(a @ b / (a @ a).sqrt() / (b @ b).sqrt()))
    return sum(cosines) / len(cosines)


def test_token_cosine_of_known_vectors() -> None:
    assert token_cosine(torch.ones(2, 5, 3)) == pytest.approx(1)
    assert token_cosine(torch.eye(4)[None]) == pytest.approx(0)
    assert token_cosine(torch.tensor([[[1.0, 0.0], [-2.0, 0.0]]]) * 1e30) == pytest.approx(-1)
    assert math.isnan(token_cosine(torch.zeros(1, 2, 3)))
    assert math.isnan(token_cosine(torch.ones(1, 1, 3)))
    assert math.isnan(token_cosine(torch.full((1, 2, 3), math.inf)))


def test_sizes_of_branch_outputs() -> None:
    network, (tokens, _) = build(TINY), batch(TINY)
    x = stream(network, tokens)[1, "stream"]
    block = network.blocks["2"]
    with torch.no_grad():
        mixed = block.mixer.f(block.mixer.before(x))
        ffn = block.ffn.f(block.ffn.before(x + mixed))
    assert measured()[2, "mixer", "rms"] == pytest.approx(math.sqrt(mean_square(mixed)), rel=1e-5)
    assert measured()[2, "ffn", "rms"] == pytest.approx(math.sqrt(mean_square(ffn)), rel=1e-5)


@pytest.mark.parametrize("mixer", ["attention", "mean"])
def test_gradients_of_each_matrix_are_separate(mixer: str) -> None:
    """Uses queries, keys and values as three leaves of the formulas in float64."""
    run = dataclasses.replace(TINY, mixer=mixer)
    tokens, targets = batch(run)
    leaves: dict[tuple[int, str], Tensor] = {}
    parameters = {}
    for name, parameter in build(run).named_parameters():
        values = parameter.detach().double()
        layer = int(name.split(".")[1]) if name.startswith("blocks") else 3 if name == "head.weight" else 0
        roles = ("q", "k", "v") if name.endswith("qkv.weight") else (name.split(".")[-2],)
        if values.dim() < 2:
            parameters[name] = values
            continue
        for role, part in zip(roles, values.chunk(len(roles)), strict=True):
            leaves[layer, role] = part.clone().requires_grad_()
        parameters[name] = torch.cat([leaves[layer, role] for role in roles])
    logits = formulas.logits(run, parameters, tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    grads = torch.autograd.grad(loss, list(leaves.values()))
    assert {role for _, role in leaves} >= ({*MATRICES, "head"} if mixer == "attention" else {"out", "fc1", "fc2"})
    keys = {key[:2] for key in measured(run) if key[2] == "grad_norm"}
    assert keys - {(layer, branch) for layer in (1, 2) for branch in ("mixer", "ffn")} == set(leaves)
    for (layer, role), grad in zip(leaves, grads, strict=True):
        assert measured(run)[layer, role, "grad_norm"] == pytest.approx(float(grad.norm()), rel=1e-4), (layer, role)


def adam(run: RunConfig, network: Network, grads: dict[str, Tensor]) -> None:
    for name, parameter in network.named_parameters():
        parameter -= run.lr * grads[name] / (grads[name].abs() + 1e-8)


def sgd(run: RunConfig, network: Network, grads: dict[str, Tensor]) -> None:
    for name, parameter in network.named_parameters():
        parameter -= run.lr * grads[name]


def matrices(run: RunConfig, network: Network, grads: dict[str, Tensor]) -> None:
    for name, parameter in network.named_parameters():
        if name.startswith("blocks.") and parameter.dim() == 2:
            parameter -= 0.01 * grads[name]


Step = Callable[[RunConfig, Network, dict[str, Tensor]], None]


@pytest.mark.parametrize(
    ("optimizer", "quantity", "step"),
    [("adam", "update", adam), ("sgd", "update", sgd), ("adam", "sgd_update", matrices)],
)
def test_updates_are_the_change_by_one_step(optimizer: str, quantity: str, step: Step) -> None:
    run = dataclasses.replace(TINY, optimizer=optimizer)
    network, (tokens, _) = build(run).double(), batch(run)
    before = stream(network, tokens)
    grads = gradients(run, network)
    with torch.no_grad():
        step(run, network, grads)
    for (layer, part), after in stream(network, tokens).items():
        change = math.sqrt(mean_square(after - before[layer, part]))
        assert measured(run)[layer, part, quantity] == pytest.approx(change, rel=2e-3, abs=1e-9), (layer, part)
        if quantity == "update":
            share = change / math.sqrt(mean_square(before[layer, part]))
            assert measured(run)[layer, part, "relative_update"] == pytest.approx(share, rel=2e-3)


def test_the_first_update_includes_warm_up_and_clipping() -> None:
    run = dataclasses.replace(TINY, optimizer="sgd")
    plain = measured(run)[1, "stream", "update"]
    warm = measured(dataclasses.replace(run, warmup=100))[1, "stream", "update"]
    assert warm == pytest.approx(plain / 100, rel=0.05)
    trainer = Trainer(run)
    trainer.backward(trainer.signal_batch)
    clip = trainer.flat.grad_norm() / 10
    clipped = measured(dataclasses.replace(run, clip=clip))
    assert clipped[1, "stream", "update"] == pytest.approx(plain / 10, rel=0.05)
    assert clipped[1, "q", "grad_norm"] == measured(run)[1, "q", "grad_norm"]
    assert clipped[1, "stream", "sgd_update"] == measured(run)[1, "stream", "sgd_update"]


@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_a_network_is_not_changed(norm: str) -> None:
    run = dataclasses.replace(TINY, norm=norm)
    trainer, other = Trainer(run), Trainer(run)
    rows = inspect_trainer(trainer, number=1)
    assert inspect_trainer(trainer, number=1) == rows
    state = other.network.state_dict()
    assert all(torch.equal(values, state[name]) for name, values in trainer.network.state_dict().items())
    assert not any(module._forward_hooks for module in trainer.network.modules())
    first = next(trainer.task.batches(0, 4))
    assert trainer.step(1, first) == other.step(1, first)
    assert torch.equal(trainer.flat.values, other.flat.values)


def expected_keys(run: RunConfig) -> set[tuple[int, str, str]]:
    last = run.depth + 1
    keys = {(layer, "stream", q) for layer in range(last + 1) for q in ("rms", "mean_square", "token_cosine", *UPDATES)}
    keys |= {(last, "logits", quantity) for quantity in ("rms", "mean_square", *UPDATES)}
    keys |= {(0, "embedding", "grad_norm"), (0, "positions", "grad_norm"), (last, "head", "grad_norm")}
    for layer in range(1, last):
        keys |= {(layer, branch, quantity) for branch in ("mixer", "ffn") for quantity in ("rms", "grad_norm")}
        keys |= {(layer, matrix, "grad_norm") for matrix in MATRICES}
        keys |= {(layer, "mixer", quantity) for quantity in ("attention_entropy", "max_logit")}
    return keys


@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", ["none", *NORMS])
def test_every_scheme_and_norm_has_every_quantity(position: str, norm: str) -> None:
    run = RunConfig(**{**TINY.to_dict(), "position": position, "norm": norm, "final_norm": "auto"})  # type: ignore[arg-type]
    rows = inspect(run)
    keys = expected_keys(run)
    if "bn" in (run.final_norm, run.norm) and (position != "rezero" or run.final_norm == "bn"):
        keys |= {(3, "logits", quantity) for quantity in ("leak", "train_mode_loss", "eval_mode_loss")}
    assert [row for row in rows if not math.isfinite(row.value)] == []
    assert set(by_key(rows)) == keys
    assert len(rows) == len(keys)


def test_a_network_without_layers_has_no_branches() -> None:
    run = RunConfig(**{**TINY.to_dict(), "depth": 0})  # type: ignore[arg-type]
    assert set(measured(run)) == expected_keys(run)
    assert measured(run)[1, "logits", "sgd_update"] == 0


@pytest.mark.parametrize("mixer", ["mean", "linear"])
def test_mixers_without_attention_have_one_matrix(mixer: str) -> None:
    keys = measured(dataclasses.replace(TINY, mixer=mixer))
    parts = {(part, quantity) for layer, part, quantity in keys if layer == 1}
    assert ("out", "grad_norm") in parts
    assert not {part for part, _ in parts} & {"q", "k", "v"}
    assert not {quantity for _, quantity in parts} & {"attention_entropy", "max_logit"}


def test_non_finite_values_are_results() -> None:
    run = RunConfig(depth=50, norm="none", width=16, hidden=16, heads=2, vocab=8, batch=2, init_gain=3.0)
    rows = by_key(inspect(run))
    assert math.isfinite(rows[1, "stream", "rms"])
    assert not math.isfinite(rows[50, "stream", "rms"])
    assert math.isnan(rows[50, "mixer", "attention_entropy"])
    assert math.isnan(rows[1, "stream", "update"])
    assert math.isnan(rows[51, "logits", "sgd_update"])


def test_16_bit_values_are_close_to_float32() -> None:
    near = measured(dataclasses.replace(TINY, dtype="bfloat16"))
    assert set(near) == set(measured())
    for key in ((2, "stream", "rms"), (2, "fc2", "grad_norm"), (2, "stream", "update"), (1, "mixer", "max_logit")):
        assert near[key] != measured()[key]
        assert near[key] == pytest.approx(measured()[key], rel=0.1)


class TestTrained:
    RUN = dataclasses.replace(TINY, steps=5)

    def test_retraining_gives_the_network_of_the_stored_weights(self) -> None:
        trainer = retrain(self.RUN)
        plain = Trainer(self.RUN)
        batches = plain.task.batches(0, 4)
        for number in range(1, 6):
            plain.step(number, next(batches))
        assert torch.equal(trainer.flat.values, plain.flat.values)
        restored = restore(self.RUN, weights_bytes(trainer.network, self.RUN), "here")
        assert inspect_trainer(restored, 5) == inspect_trainer(trainer, 5)

    def test_the_update_after_training_uses_a_fresh_optimizer(self) -> None:
        trainer = retrain(self.RUN)
        change = by_key(inspect_trainer(trainer, 5))[0, "stream", "update"]
        assert change == pytest.approx(math.sqrt(2) * self.RUN.lr, rel=0.3)

    def test_retraining_a_non_finite_run_ends_after_its_last_update(self) -> None:
        run = dataclasses.replace(self.RUN, norm="none", optimizer="sgd", lr=1e30, steps=50)
        result = train(dataclasses.replace(run, eval_every=50)).result
        assert result.death is not None
        assert 0 < result.steps_done < 5
        plain = Trainer(run)
        for number, batch in zip(range(1, result.steps_done + 1), plain.task.batches(0, 4), strict=False):
            plain.step(number, batch)
        assert torch.equal(retrain(run).flat.values, plain.flat.values)
