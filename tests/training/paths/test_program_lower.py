"""Programs of whole networks agree with autograd: every row of the tables, any shape, and modules of plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import needs_compiler
from own_modules import OWN, OWN_NORMS
from programs import FLOAT64_TOLERANCE, check, check_compiled, check_tape, in_float64, network_of, poisoned, small
from torch import nn

from normexp.config import plugins
from normexp.config.run import MIXERS, QK_NORMS, RunConfig
from normexp.model.norms import BatchNorm
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES
from normexp.training.paths import nodes
from normexp.training.paths.lower import LONGEST
from normexp.training.paths.program import Program

Check = Callable[[RunConfig], None]


@pytest.fixture(params=[check_tape, pytest.param(check_compiled, marks=needs_compiler)], ids=["tape", "compiled"])
def agree(request: pytest.FixtureRequest) -> Check:
    """Compare the program of a network with autograd, by the tape and by compiled kernels."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def own() -> Iterator[None]:
    """Add a plugin with a scheme, and with norms that have no node or not all of its parameters."""
    with plugins.using(plugins.Plugin("own.py", OWN)):
        yield


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", ["none", *NORMS])
def test_every_network(agree: Check, mixer: str, position: str, norm: str) -> None:
    agree(small(mixer=mixer, position=position, norm=norm))


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("position", SCHEMES)
def test_every_scheme_without_skips_and_with_relu(agree: Check, mixer: str, position: str) -> None:
    agree(small(mixer=mixer, position=position, residual=False, activation="relu"))


@pytest.mark.parametrize("qk_norm", QK_NORMS)
@pytest.mark.parametrize("position", ["pre", "hybrid"])
@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_every_norm_of_queries_and_keys(agree: Check, qk_norm: str, position: str, norm: str) -> None:
    agree(small(qk_norm=qk_norm, position=position, norm=norm))


@pytest.mark.parametrize(
    "keys",
    [
        {"depth": 0},
        {"depth": 0, "norm": "none", "pos_embed": "none"},
        {"pos_embed": "none"},
        {"mixer": "linear", "pos_embed": "learned"},
        {"final_norm": "scale", "norm": "rms"},
        {"eps": 0.0},
        {"batch": 1},
        {"batch": 1, "norm": "bn"},
    ],
    ids=str,
)
def test_other_keys(agree: Check, keys: dict[str, object]) -> None:
    agree(small(**keys))


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("tokens", [LONGEST, LONGEST + 1])
def test_long_sequences(mixer: str, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[nn.Module] = []
    foreign = nodes.foreign
    monkeypatch.setattr(
        nodes, "foreign", lambda tape, module, *rest: called.append(module) or foreign(tape, module, *rest)
    )
    check_tape(small(mixer=mixer, seq_len=tokens, batch=2, depth=1))
    assert bool(called) == (tokens > LONGEST and mixer != "linear")


@given(
    features=st.integers(1, 5),
    heads=st.integers(1, 3),
    hidden=st.integers(1, 9),
    vocab=st.integers(2, 9),
    tokens=st.integers(2, 9),
    batch=st.integers(1, 4),
    first=st.integers(0, 1),
    norm=st.sampled_from(["ln", "rms", "dyt"]),
    position=st.sampled_from(["pre", "hybrid", "subln", "deepnorm"]),
)
@settings(max_examples=40, deadline=None)
def test_any_shape(
    features: int, heads: int, hidden: int, vocab: int, tokens: int, batch: int, first: int, norm: str, position: str
) -> None:
    sizes = {"width": features * heads, "heads": heads, "hidden": hidden, "vocab": vocab}
    # With one feature, subtracting the mean leaves only rounding errors, which a small eps would amplify.
    run = small(**sizes, seq_len=tokens, batch=batch, norm=norm, position=position, eps=0.1)
    with in_float64(), poisoned():
        check(run, FLOAT64_TOLERANCE, first)


@pytest.mark.usefixtures("own")
class TestModulesOfPlugins:
    @pytest.mark.parametrize("norm", OWN_NORMS)
    @pytest.mark.parametrize("position", ["pre", "hybrid", "own"])
    def test_norms_agree(self, agree: Check, norm: str, position: str) -> None:
        agree(small(norm=norm, position=position))

    @pytest.mark.parametrize("norm", ["ln", "bn", "none"])
    @pytest.mark.parametrize("mixer", MIXERS)
    def test_a_scheme_agrees(self, agree: Check, norm: str, mixer: str) -> None:
        agree(small(norm=norm, position="own", mixer=mixer))

    @pytest.mark.parametrize("norm", ["peak", "fixed_gain"])
    def test_fixed_parameters_get_no_gradient(self, norm: str) -> None:
        run = small(norm=norm)
        network = network_of(run)
        fixed = [parameter for parameter in network.parameters() if not parameter.requires_grad]
        assert len(fixed) == 5
        for parameter in fixed:
            parameter.grad = torch.zeros_like(parameter)
        Program(network, run.batch, run.seq_len, 1).tape.run()
        assert all(parameter.grad is not None and not parameter.grad.any() for parameter in fixed)


@pytest.mark.parametrize(("norm", "kinds"), [("none", set()), ("ln", set()), ("rms", set()), ("bn", {BatchNorm})])
def test_only_modules_without_a_node_use_autograd(
    norm: str, kinds: set[type[nn.Module]], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: set[type[nn.Module]] = set()
    foreign = nodes.foreign

    def seen(tape: object, module: nn.Module, *rest: object) -> object:
        left.add(type(module))
        return foreign(tape, module, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(nodes, "foreign", seen)
    for position in SCHEMES:
        run = small(position=position, norm=norm)
        Program(network_of(run), run.batch, run.seq_len, 1)
    assert left == kinds
