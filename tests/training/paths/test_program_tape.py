"""The tape: who holds a buffer, when it may be overwritten, and how many calls and bytes a network needs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Poisoned, in_float64, network_of, small
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.block import Constant, Scaling
from normexp.model.norms import DyT
from normexp.model.rms_norm import RMSNorm
from normexp.training.paths import nodes
from normexp.training.paths.program import Program
from normexp.training.paths.tape import Tape, Value

N, D = 6, 4


def fill(tape: Tape, number: float) -> Callable[[Tensor], None]:
    return lambda part: tape.call(part.fill_, number)


class TestThePool:
    def test_released_buffers_are_reused_by_shape(self) -> None:
        tape = Tape()
        buffer = tape.take(2, 3)
        assert tape.take(2, 3) is not buffer
        tape.put(buffer)
        assert tape.take(3, 2) is not buffer
        assert tape.take(2, 3) is buffer

    def test_a_shared_buffer_is_free_when_both_holders_have_released_it(self) -> None:
        tape, value = Tape(), Value(torch.zeros(2))
        grad = tape.take(2)
        tape.give_same(value, grad)
        tape.put(grad)
        assert tape.take(2) is not grad
        tape.put(grad)
        assert tape.take(2) is grad

    def test_a_foreign_buffer_never_enters_the_pool(self) -> None:
        tape, stranger = Tape(), torch.zeros(2)
        for buffer in (stranger, tape.take(2)[:], tape.take(2).view(2)):
            tape.put(buffer)
            assert tape.take(2) is not buffer

    def test_buffers_held_only_by_the_tape_stay_alive(self) -> None:
        """Python may reuse the identity of a deleted object."""
        tape = Tape()
        for _ in range(100):
            tape.take(2)
            stranger = torch.zeros(2)
            tape.put(stranger)
            assert tape.take(2) is not stranger


class TestDrop:
    def test_a_value_is_free_after_its_last_reader(self) -> None:
        tape = Tape()
        value = tape.value(2)
        tape.drop(value)
        assert tape.take(2) is value.data

    def test_a_value_that_the_backward_pass_reads_is_kept(self) -> None:
        tape = Tape()
        value = tape.value(2)
        value.keep()
        tape.drop(value)
        assert tape.take(2) is not value.data

    def test_a_value_with_a_part_that_the_backward_pass_reads_is_kept(self) -> None:
        tape = Tape()
        value = tape.value(2, 6)
        nodes.parts(tape, value, 3)[1].keep()
        tape.drop(value)
        assert tape.take(2, 6) is not value.data

    def test_a_part_is_not_released_alone(self) -> None:
        tape = Tape()
        value = tape.value(2, 6)
        part = nodes.parts(tape, value, 3)[1]
        tape.drop(part)
        assert tape.take(2, 2) is not part.data


class TestGradients:
    def test_parts_are_added(self) -> None:
        tape, value = Tape(), Value(torch.zeros(2))
        for number in (1.0, 2.0, 4.0):
            tape.give(value, fill(tape, number))
        tape.run()
        tape.run()
        assert value.grad.tolist() == [7.0, 7.0]

    def test_gradients_of_a_parameter_are_added_in_its_grad(self) -> None:
        tape, parameter = Tape(), nn.Parameter(torch.ones(2))
        parameter.grad = torch.full((2,), 9.0)
        assert tape.parameter(parameter) is tape.parameter(parameter)
        for number in (1.0, 2.0):
            tape.give(tape.parameter(parameter), fill(tape, number))
        tape.run()
        tape.run()
        assert parameter.grad.tolist() == [3.0, 3.0]

    def test_a_shared_gradient_is_neither_copied_nor_overwritten(self) -> None:
        tape, first, second = Tape(), Value(torch.zeros(2)), Value(torch.zeros(2))
        grad = tape.take(2)
        tape.call(grad.fill_, 1.0)
        tape.give_same(first, grad)
        tape.give_same(second, grad)
        assert len(tape.calls) == 1
        tape.put(grad)
        tape.give(first, fill(tape, 5.0))
        tape.give_late(second, lambda: torch.full((2,), 7.0))
        tape.run()
        assert (first.grad.tolist(), second.grad.tolist()) == ([6.0, 6.0], [8.0, 8.0])

    def test_a_late_gradient_is_copied_first_and_then_added(self) -> None:
        tape, value, other = Tape(), Value(torch.zeros(2)), Value(torch.zeros(2))
        for number in (1.0, 2.0):
            tape.give_late(value, lambda number=number: torch.full((2,), number))
        tape.give_same(other, value.grad)
        tape.give_late(other, lambda: torch.full((2,), 4.0))
        tape.run()
        tape.run()
        assert (value.grad.tolist(), other.grad.tolist()) == ([3.0, 3.0], [7.0, 7.0])

    def test_a_gradient_with_one_holder_is_changed_in_place(self) -> None:
        tape, value = Tape(), Value(torch.zeros(2))
        grad = tape.take(2)
        tape.call(grad.fill_, 3.0)
        tape.give_changed(value, grad, lambda part: tape.call(torch.mul, grad, 2, out=part))
        assert value.grad is grad
        tape.run()
        assert grad.tolist() == [6.0, 6.0]

    def test_a_shared_gradient_is_not_changed_in_place(self) -> None:
        tape, value, other = Tape(), Value(torch.zeros(2)), Value(torch.zeros(2))
        grad = tape.take(2)
        tape.call(grad.fill_, 3.0)
        tape.give_same(other, grad)
        tape.give_changed(value, grad, lambda part: tape.call(torch.mul, grad, 2, out=part))
        tape.run()
        assert (value.grad.tolist(), other.grad.tolist()) == ([6.0, 6.0], [3.0, 3.0])

    def test_a_part_of_a_buffer_is_not_changed_in_place(self) -> None:
        tape, value = Tape(), Value(torch.zeros(2))
        part = tape.take(3, 2)[1]
        tape.give_changed(value, part, lambda out: tape.call(torch.mul, part, 2, out=out))
        assert value.grad is not part

    def test_a_node_with_an_unused_output_has_no_backward_calls(self) -> None:
        tape = Tape()
        nodes.gelu(tape, nn.GELU(), Value(torch.zeros(2)))
        before = len(tape.calls)
        tape.finish()
        assert len(tape.calls) == before


OPERATIONS = ("gelu", "constant", "scaling", "linear", "layer_norm", "rms_norm", "foreign", "add", "running_mean")
GRAPHS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14
)


@given(graph=GRAPHS)
@settings(max_examples=60, deadline=None)
def test_any_graph_of_nodes_has_the_gradients_of_autograd(graph: list[tuple[str, int, int]]) -> None:
    """Values are used once, often or never, modules repeatedly, on a tape whose free buffers contain NaN."""
    with in_float64():
        torch.manual_seed(0)
        modules = {
            "gelu": nn.GELU(),
            "constant": Constant(0.7),
            "scaling": Scaling(1.3),
            "linear": nn.Linear(D, D),
            "layer_norm": nn.LayerNorm(D, eps=0.1),
            "rms_norm": RMSNorm(D, eps=0.1),
            "foreign": DyT(D, 0.5),
        }
        parameters = [parameter for module in modules.values() for parameter in module.parameters()]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        start = torch.randn(N, D).requires_grad_()
        tape = Poisoned()
        values, wanted = [Value(start.detach())], [start]
        last = {index % (place + 1): place for place, (_, *used) in enumerate(graph) for index in used}
        for place, (name, *used) in enumerate(graph):
            first, second = (index % (place + 1) for index in used)
            if name == "add":
                values.append(nodes.add(tape, values[first], values[second]))
                wanted.append(wanted[first] + wanted[second])
            elif name == "running_mean":
                values.append(nodes.running_mean(tape, values[first], 2))
                mean = wanted[first].view(2, 3, D).cumsum(1) / torch.arange(1, 4)[:, None]
                wanted.append(mean.view(N, D))
            else:
                values.append(getattr(nodes, name)(tape, modules[name], values[first]))
                wanted.append(modules[name](wanted[first]))
            for index in {first, second}:
                if last[index] == place:
                    tape.drop(values[index])
        upstream = torch.randn(N, D)
        values[-1].grad = tape.take(N, D)
        tape.call(values[-1].grad.copy_, upstream)
        result = torch.empty(N, D)
        tape.call(result.copy_, values[-1].data)
        tape.finish()
        grads = torch.autograd.grad(wanted[-1], [start, *parameters], upstream, materialize_grads=True)
        for _ in range(2):
            tape.run()
            actual = [values[0].grad, *(parameter.grad for parameter in parameters)]
            assert torch.allclose(result, wanted[-1], rtol=1e-12, atol=1e-12)
            largest = max(float(grad.abs().max()) for grad in grads)
            for ours, grad in zip(actual, grads, strict=True):
                assert grad.any() or ours is None or not ours.any()
                assert ours is None or torch.allclose(ours, grad, rtol=0, atol=1e-12 * largest)


def program_of(**keys: object) -> Program:
    run = small(**keys)
    return Program(network_of(run), run.batch, run.seq_len, 1)


def calls(depth: int, **keys: object) -> int:
    return len(program_of(depth=depth, **keys).tape.calls)


@pytest.mark.parametrize(("norm", "most"), [("ln", 42), ("rms", 48), ("none", 34)])
def test_a_layer_takes_few_calls(norm: str, most: int) -> None:
    """Each call has a fixed cost, so more calls make a step slower."""
    assert calls(3, norm=norm) - calls(2, norm=norm) <= most


def test_the_memory_of_the_backward_pass_does_not_grow_with_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    finish = Tape.finish

    def counted(tape: Tape) -> None:
        before = tape.arena._start
        finish(tape)
        taken.append(tape.arena._start - before)

    monkeypatch.setattr(Tape, "finish", counted)
    for depth in (2, 4, 8):
        program_of(depth=depth)
    assert len(set(taken)) == 1, taken


def test_a_program_reads_parameters_in_place() -> None:
    run: RunConfig = small()
    network = network_of(run)
    program = Program(network, run.batch, run.seq_len, 1)
    program.tape.run()
    before = program.loss.item()
    with torch.no_grad():
        network.head.weight.mul_(3.0)
    program.tape.run()
    assert program.loss.item() != before


@pytest.mark.parametrize("keys", [{}, {"norm": "bn", "position": "hybrid", "qk_norm": "full"}], ids=str)
def test_the_memory_of_a_program_is_freed_with_it(keys: dict[str, object]) -> None:
    """It must not wait for the garbage collector, which does not know how much memory a cycle holds."""
    program = program_of(**keys)
    arena = weakref.ref(program.tape.arena)
    gc.disable()
    try:
        del program
        assert arena() is None
    finally:
        gc.enable()
