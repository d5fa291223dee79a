"""What only programs of compiled kernels do. What they share with the tape is tested in test_program_lower."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import needs_compiler
from programs import FLOAT32_TOLERANCE, batch_of, check, check_compiled, network_of, small

from normexp.config.run import MIXERS, QK_NORMS, RunConfig
from normexp.records.execution_path import ExecutionPath
from normexp.schemes.schemes import SCHEMES
from normexp.training.divergence import training_signal
from normexp.training.paths import nodes
from normexp.training.paths.compiled.library import load
from normexp.training.paths.compiled.program import (
    COMPILED_CHECKED,
    FUNCTIONS,
    HEAD_NORMS,
    LANES,
    MOST_FEATURES,
    ROWS,
    CompiledProgram,
)
from normexp.training.paths.compiled.table import JoinedRows
from normexp.training.paths.lower import LONGEST
from normexp.training.trainer import Trainer

pytestmark = needs_compiler


def calls_of_others(run: RunConfig) -> int:
    """Count the calls that use no kernel, except products if the registers of the processor are short."""
    calls = CompiledProgram(network_of(run), run.batch, run.seq_len, 1).tape.calls
    products = () if load().functions.lanes() >= LANES else (torch.mm, torch.addmm, torch.sum)
    return sum(not isinstance(call, JoinedRows) and getattr(call, "func", None) not in products for call in calls)


@pytest.mark.parametrize("norm", ["none", "ln", "rms", "bn", "dyt", "scale"])
def test_every_module_has_a_kernel(norm: str) -> None:
    """A norm that is added later may do without one."""
    for position, mixer in itertools.product(SCHEMES, MIXERS):
        assert not calls_of_others(small(mixer=mixer, position=position, norm=norm))
    for position, qk_norm in itertools.product(("pre", "hybrid"), QK_NORMS):
        assert not calls_of_others(small(qk_norm=qk_norm, position=position, norm=norm))


@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 31, 33, 48, 63, LONGEST, LONGEST + 1, 128])
@pytest.mark.parametrize("mixer", ["attention", "mean"])
def test_any_length(mixer: str, tokens: int) -> None:
    run = small(mixer=mixer, seq_len=max(2, tokens), batch=2, depth=1)
    check_compiled(run)
    assert bool(calls_of_others(run)) == (tokens > LONGEST)


@pytest.mark.parametrize("features", [1, 4, 8, 12, 16, 20, 32, 48, 64, MOST_FEATURES, MOST_FEATURES + 1])
@pytest.mark.parametrize("qk_norm", ["none", "ln", "full"])
def test_any_head_size(features: int, qk_norm: str) -> None:
    run = small(heads=2, width=2 * features, seq_len=18, batch=2, depth=1, qk_norm=qk_norm, eps=0.1)
    check_compiled(run)
    if features < MOST_FEATURES:
        assert not calls_of_others(run)


@pytest.mark.parametrize("width", [16, 48, 64, 80, 96, 112, 128, 144])
def test_widths_of_whole_vectors(width: int) -> None:
    check_compiled(small(width=width, hidden=2 * width, vocab=64, seq_len=16, heads=2, batch=3))


@given(
    features=st.integers(1, 40),
    heads=st.integers(1, 3),
    hidden=st.integers(1, 70),
    vocab=st.integers(2, 40),
    tokens=st.integers(2, 40),
    batch=st.integers(1, 5),
    first=st.integers(0, 1),
    norm=st.sampled_from(["ln", "rms", "dyt", "scale"]),
    qk_norm=st.sampled_from(sorted(QK_NORMS)),
    position=st.sampled_from(["pre", "hybrid", "subln", "deepnorm", "b2t"]),
)
@settings(max_examples=60, deadline=None)
def test_any_shape(
    features: int, heads: int, hidden: int, vocab: int, tokens: int, batch: int, first: int, norm: str, qk_norm: str,
    position: str,
) -> None:  # fmt: skip
    sizes = {"width": features * heads, "heads": heads, "hidden": hidden, "vocab": vocab}
    # With one feature, subtracting the mean leaves only rounding errors, which a small eps would amplify.
    run = small(**sizes, seq_len=tokens, batch=batch, norm=norm, qk_norm=qk_norm, position=position, eps=0.1)
    check(run, 3 * FLOAT32_TOLERANCE, first, CompiledProgram)


def test_the_initial_check_covers_every_kind_of_module() -> None:
    kinds = {type(module) for run in COMPILED_CHECKED for module in network_of(run).modules()}
    assert not ({*ROWS, *FUNCTIONS, *HEAD_NORMS}) - kinds


class TestProducts:
    def test_large_products_use_aten(self) -> None:
        run = small(width=64, hidden=4096, heads=1, depth=1)
        check_compiled(run)
        if load().functions.lanes() >= LANES:
            assert calls_of_others(run)

    def test_all_products_use_aten_without_wide_registers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        called = []
        linear = nodes.linear
        monkeypatch.setattr("normexp.training.paths.compiled.program.LANES", 1000)
        monkeypatch.setattr(nodes, "linear", lambda *rest: called.append(rest) or linear(*rest))
        check_compiled(small(qk_norm="rms"))
        assert called


HERE = Path(__file__).parent
BITS = """
import hashlib, sys
import torch
sys.path[:0] = {folders!r}
from test_compiled_program import bits
torch.set_num_threads(1)
padding = [bytearray(977 * i) for i in range({padding})]
print(bits())
"""


def bits() -> str:
    """Return a hash of everything that a short training run computes."""
    run = small(depth=3, width=64, hidden=128, vocab=64, seq_len=16, heads=4, batch=8, norm="rms", qk_norm="ln")
    trainer, digest = Trainer(run, path=ExecutionPath.COMPILED), hashlib.sha256()
    for number, batch in zip(range(1, 9), trainer.task.batches(0, run.batch), strict=False):
        digest.update(repr(trainer.step(number, batch)).encode())
    digest.update(repr(trainer.evaluate()).encode() + trainer.flat.values.numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.slow
def test_the_same_bits_in_every_process() -> None:
    """The result must not depend on the addresses of the buffers."""
    here = {bits(), bits()}
    for padding in (1, 50):
        code = BITS.format(folders=[str(HERE), str(HERE.parents[1] / "support")], padding=padding)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
        here.add(done.stdout.strip())
    assert len(here) == 1


@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_an_evaluation_agrees_with_the_network(norm: str) -> None:
    run = small(norm=norm, seq_len=16, batch=32, width=16, hidden=32)
    trainer = Trainer(run, path=ExecutionPath.COMPILED)
    wanted = trainer._evaluate_modules()
    assert trainer.evaluate() == pytest.approx(wanted, rel=1e-6)
    assert (trainer._evaluate_compiled() is None) == (norm == "bn")
    before = [buffer.clone() for buffer in trainer.network.buffers()]
    trainer.evaluate()
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.network.buffers(), strict=True))


def test_an_evaluation_does_not_affect_later_steps() -> None:
    run = small(seq_len=16, batch=32)
    steps: dict[bool, list[object]] = {False: [], True: []}
    for evaluates in steps:
        trainer = Trainer(run, path=ExecutionPath.COMPILED)
        batches = trainer.task.batches(0, run.batch)
        for number in range(1, 4):
            steps[evaluates].append(trainer.step(number, next(batches)))
            if evaluates:
                trainer.evaluate()
    assert steps[False] == steps[True]


def test_the_loss_of_a_program_only_depends_on_its_batch() -> None:
    run = small()
    program = CompiledProgram(network_of(run), run.batch, run.seq_len, 1)
    losses = [program(batch_of(run, number)) for number in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]
    assert program.loss_alone(batch_of(run, 1)) == losses[1]


@pytest.mark.parametrize("norm", ["ln", "bn", "none"])
def test_the_signal_agrees_with_autograd(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small(norm=norm, qk_norm="rms")
    signals = []
    for path in (ExecutionPath.COMPILED, ExecutionPath.AUTOGRAD):
        trainer = Trainer(run, path=path)
        before = [buffer.clone() for buffer in trainer.network.buffers()]
        if path is ExecutionPath.COMPILED:
            monkeypatch.setattr(trainer, "backward", lambda batch: pytest.fail("autograd was used"))
        signals.append(training_signal(trainer, 1, trainer.signal_batch))
        assert all(torch.equal(a, b) for a, b in zip(before, trainer.network.buffers(), strict=True))
    names = [[(row.layer, row.part, row.quantity) for row in rows] for rows in signals]
    assert names[0] == names[1]
    assert [row.value for row in signals[0]] == pytest.approx([row.value for row in signals[1]], rel=1e-4, abs=1e-6)


def test_a_non_finite_signal_comes_from_autograd() -> None:
    signals = []
    for path in (ExecutionPath.COMPILED, ExecutionPath.AUTOGRAD):
        trainer = Trainer(small(norm="none"), path=path)
        trainer.flat.values.mul_(1e25)
        signals.append([repr(row) for row in training_signal(trainer, 1, trainer.signal_batch)])
    assert signals[0] == signals[1]
