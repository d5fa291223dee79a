"""Programs: the check before they are used, their loss and their embedding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from programs import FLOAT64_TOLERANCE, batch_of, by_autograd, check, in_float64, network_of, poisoned, small

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.model.branches import PerToken
from normexp.model.network import build
from normexp.training.paths import program as module
from normexp.training.paths.lower import FUNCTIONS, NODES
from normexp.training.paths.program import CHECKED, Program, settle, works


@pytest.fixture
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the results of earlier checks."""
    monkeypatch.setattr(module, "_known", None)
    tried = module._works
    tried.cache_clear()
    yield
    tried.cache_clear()


def refuse() -> bool:
    raise AssertionError("the check was run")


OPERATORS = (
    ("native_layer_norm_backward", "default"),
    ("gelu_backward", "grad_input"),
    ("threshold_backward", "grad_input"),
    ("_softmax", "out"),
    ("_softmax_backward_data", "out"),
    ("_log_softmax", "out"),
)


@pytest.mark.usefixtures("_fresh")
class TestWorks:
    def test_with_this_torch(self) -> None:
        assert works()

    @pytest.mark.parametrize("answer", [False, True])
    def test_a_given_answer_is_used(self, answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_works", refuse)
        settle(answer)
        assert works() == answer

    def test_the_check_covers_every_node(self) -> None:
        kinds = {type(module) for run in CHECKED for module in build(run).modules()}
        assert not (set(NODES) | set(FUNCTIONS) - {PerToken}) - kinds  # PerToken is only a matrix

    @pytest.mark.parametrize(("name", "overload"), OPERATORS)
    def test_a_missing_operator_is_detected(self, name: str, overload: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(*_: object, **__: object) -> None:
            raise AttributeError(name)

        monkeypatch.setattr(getattr(torch.ops.aten, name), overload, gone)
        assert not works()

    @pytest.mark.parametrize(("name", "overload"), OPERATORS)
    def test_an_operator_with_other_results_is_detected(
        self, name: str, overload: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        operator = getattr(torch.ops.aten, name)
        kernel = getattr(operator, overload)

        def off(*arguments: object, **options: object) -> object:
            results = kernel(*arguments, **options)
            for tensor in results if isinstance(results, tuple) else (results,):
                if tensor is not None:
                    tensor.mul_(1.01)
            return results

        monkeypatch.setattr(operator, overload, off)
        assert not works()


class TestTheLoss:
    @pytest.mark.parametrize("first", [0, 1, 3])
    def test_counts_targets_from_the_first_position_on(self, first: int) -> None:
        with in_float64(), poisoned():
            check(small(), FLOAT64_TOLERANCE, first)

    def test_only_depends_on_its_batch(self) -> None:
        run = small()
        network = network_of(run)
        program = Program(network, run.batch, run.seq_len, 1)
        losses = [program(batch_of(run, number)) for number in (0, 1, 0)]
        assert losses[0] == losses[2] != losses[1]
        assert losses[0] == pytest.approx(by_autograd(network, batch_of(run), 1)[0], rel=1e-6)

    @pytest.mark.parametrize("size", [30.0, 1e4])
    def test_of_logits_far_apart(self, size: float) -> None:
        """Probabilities of 0 and 1 have a finite logarithm and gradient."""
        run = small(depth=0, norm="none", pos_embed="none")
        network = network_of(run)
        with torch.no_grad():
            network.head.weight.mul_(size)
        program = Program(network, run.batch, run.seq_len, 1)
        loss, grads = by_autograd(network, batch_of(run), 1)
        assert program(batch_of(run)) == pytest.approx(loss, rel=1e-6)
        assert torch.allclose(network.head.weight.grad, grads["head.weight"], rtol=1e-5, atol=1e-7)


class TestTheEmbedding:
    def test_an_unused_token_gets_no_gradient(self) -> None:
        run = small()
        network = network_of(run)
        batch = Batch(*([[1, 2, 1, 2, 1]] * run.batch for _ in range(2)))
        batch = Batch(*(torch.tensor(part).numpy() for part in (batch.inputs_nt, batch.targets_nt)))
        Program(network, run.batch, run.seq_len, 1)(batch)
        assert network.embedding.weight.grad.any(dim=1).tolist() == [number in (1, 2) for number in range(run.vocab)]

    def test_an_unused_position_gets_no_gradient(self) -> None:
        run: RunConfig = small()
        network = network_of(run)
        tokens = 3
        batch = batch_of(run)
        short = Batch(batch.inputs_nt[:, :tokens], batch.targets_nt[:, :tokens])
        assert math.isnan(network.positions.weight.grad.sum())
        loss = Program(network, run.batch, tokens, 1)(short)
        expected, grads = by_autograd(network, short, 1)
        assert loss == pytest.approx(expected, rel=1e-6)
        assert torch.allclose(network.positions.weight.grad, grads["positions.weight"], atol=1e-7)
