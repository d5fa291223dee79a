"""LayerNorm folded into RMSNorm: exact where it is said to be, measured everywhere, and the command around it."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from typer.testing import CliRunner

from normexp.cli.app import app
from normexp.errors import UserError
from normexp.nn.network import Network, build
from normexp.run import MIXERS, QK_NORMS, RunConfig
from normexp.schemes import SCHEMES, Scale, Scheme, by_branch
from normexp.training import convert as conversion
from normexp.training.convert import Conversion, convert
from normexp.training.fold import dropped, folded, to_layer_norm, widened
from normexp.training.weights import header_of, network_from, weights_bytes

EXACT = {"pre", "lns", "residual_scaled"}
"""Schemes whose norms all stand before a branch or the head. Without open doors, rezero has nothing to fold."""
ROUNDING = 1e-12


def small(**keys: Any) -> RunConfig:
    tiny = {"depth": 6, "width": 16, "hidden": 24, "vocab": 11, "norm": "ln", "order": 1, "batch": 4, "steps": 20}
    return RunConfig(**{**tiny, **keys})


def shuffled(config: RunConfig, dtype: torch.dtype = torch.float64) -> Network:
    """Random gains, biases, matrices and scales."""
    network = build(config).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return network


def tokens(vocab: int = 11) -> Tensor:
    return torch.randint(0, vocab, (8, 16), generator=torch.Generator().manual_seed(0))


def error(one: Network, other: Network) -> float:
    with torch.no_grad():
        return float((one(tokens()) - other(tokens())).abs().max())


def no_final_bias(network: Network) -> Network:
    with torch.no_grad():
        network.final_norm.bias.zero_()
    return network


def norms(network: nn.Module) -> list[str]:
    return [type(module).__name__ for module in network.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]


ALL_MIXERS = [(mixer, qk) for mixer in MIXERS for qk in (QK_NORMS if mixer == "attention" else ["none"])]


@pytest.mark.parametrize("position", sorted(EXACT))
@pytest.mark.parametrize(("mixer", "qk_norm"), ALL_MIXERS)
@pytest.mark.parametrize("residual", [True, False])
def test_the_fold_is_exact(position: str, mixer: str, qk_norm: str, residual: bool) -> None:
    config = small(position=position, mixer=mixer, qk_norm=qk_norm, residual=residual)
    network = no_final_bias(shuffled(config))
    made = folded(network)
    assert made.reasons == ()
    assert made.config == replace(config, norm="rms", final_norm="rms")
    assert norms(made.network).count("LayerNorm") == 2 * 6 * (qk_norm == "ln")
    assert error(network, made.network) < ROUNDING
    assert error(network, dropped(network).network) > 0.1


@pytest.mark.parametrize("position", sorted(EXACT))
def test_a_final_bias_keeps_the_final_norm_unless_told_otherwise(position: str) -> None:
    network = shuffled(small(position=position))
    made = folded(network)
    assert (made.config.norm, made.config.final_norm, made.reasons) == ("rms", "ln", ())
    assert "the final norm stays LayerNorm" in made.remark
    assert error(network, made.network) < ROUNDING
    lossy = folded(network, final_rms=True)
    assert lossy.config.final_norm == "rms"
    assert len(lossy.reasons) == 1
    with torch.no_grad():
        missing = network.head.weight @ network.final_norm.bias
        gap = network(tokens()) - lossy.network(tokens())
    assert torch.allclose(gap, missing.expand_as(gap), atol=ROUNDING)


@pytest.mark.parametrize("position", sorted({*SCHEMES} - EXACT - {"rezero"}))
@pytest.mark.parametrize("mixer", MIXERS)
def test_other_schemes_are_approximate_and_say_why(position: str, mixer: str) -> None:
    network = shuffled(small(position=position, mixer=mixer))
    made = folded(network)
    assert made.reasons
    assert error(network, made.network) > 1e-3
    assert "LayerNorm" not in norms(made.network)[:-1]


def even(network: Network, gain: float, *, biases: bool = True) -> Network:
    """All gains equal, so that what has no mean keeps none; and embeddings without a mean."""
    for module in network.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.constant_(module.weight, gain)
            if not biases:
                nn.init.zeros_(module.bias)
    with torch.no_grad():
        for table in filter(None, (network.embedding, network.positions)):
            table.weight -= table.weight.mean(1, keepdim=True)
    return network


@pytest.mark.parametrize("position", sorted({*SCHEMES} - {"rezero", "subln", "hybrid"}))
@pytest.mark.parametrize("mixer", MIXERS)
def test_only_uneven_gains_and_biases_stand_against_it(position: str, mixer: str) -> None:
    network = even(shuffled(small(position=position, mixer=mixer)), 1.7, biases=False)
    made = folded(network)
    assert error(network, made.network) < ROUNDING
    assert (made.reasons == ()) == (
        position in EXACT | {"sandwich"}
    )  # the others read the embedding in their first branch


@contextmanager
def scheme(mixer: frozenset[str], ffn: frozenset[str], **scales: Scale) -> Iterator[str]:
    """The name of a scheme with these doors and scales, while it is in the table."""
    doors = by_branch(mixer=tuple(mixer), ffn=tuple(ffn))
    SCHEMES.add("odd", Scheme(doors=doors, final_norm=True, help="", source="", **scales), "test")
    try:
        yield "odd"
    finally:
        SCHEMES.remove("test")


def scales_of(numbers: tuple[float, float, float, float], learned: bool) -> dict[str, Scale]:
    """Scales that differ by layer, learned or not; the bottom one is the FFN's alone."""
    skip, branch_in, branch_out, bottom = numbers
    return {
        "skip": Scale(lambda site: skip, learned=learned),
        "branch_in": Scale(lambda site: branch_in * site.layer, learned=learned),
        "branch_out": Scale(lambda site: branch_out, learned=learned, shared=True),
        "bottom": Scale(lambda site: bottom if site.branch == "ffn" else 0.0),
    }


@pytest.mark.parametrize("learned", [True, False])
def test_every_scale_learned_or_not_passes_through_the_fold(learned: bool) -> None:
    before = frozenset({"before"})
    with scheme(before, before, **scales_of((0.9, 0.5, 0.7, 0.3), learned)) as name:
        network = no_final_bias(shuffled(small(position=name)))
        made = folded(network)
        assert made.reasons == ()
        assert error(network, made.network) < ROUNDING


@pytest.mark.parametrize("numbers", [(1.0, 1.0, 1.0, 0.0), (0.9, 0.5, 0.7, 0.3)])
def test_a_bias_after_the_sum_moves_through_matrices_and_skips(numbers: tuple[float, float, float, float]) -> None:
    """Post with equal gains: all of its biases fold but the last, which the head would need."""
    after = frozenset({"after"})
    with scheme(after, after, **scales_of(numbers, learned=False)) as name:
        network = even(shuffled(small(position=name, final_norm="none")), 0.8)
        with torch.no_grad():
            missing = network.head.weight @ network.blocks["6"].ffn.after.bias
            gap = network(tokens()) - folded(network).network(tokens())
    assert torch.allclose(gap, missing.expand_as(gap), atol=ROUNDING)


def test_a_mean_that_goes_round_a_norm_to_the_head_is_kept() -> None:
    scales = scales_of((1.0, 1.0, 1.0, 0.3), learned=False)
    with scheme(frozenset({"before", "after"}), frozenset({"before"}), **scales) as name:
        for final_norm, exact in (("ln", True), ("none", False)):
            network = shuffled(small(position=name, final_norm=final_norm, depth=1))
            network = even(network, 0.8, biases=False)
            nn.init.normal_(network.embedding.weight)
            made = folded(network)
            assert (made.reasons == ()) == exact
            assert (error(network, made.network) < ROUNDING) == exact


def test_biases_of_keys_and_values_fold_and_that_of_queries_does_not() -> None:
    with scheme(frozenset({"before", "qkv"}), frozenset({"before"})) as name:
        network = no_final_bias(shuffled(small(position=name, depth=2)))
        assert folded(network).reasons == ("the bias of a norm at `qkv` reaches no matrix, and is dropped",)
        for block in network.blocks.values():
            nn.init.zeros_(block.mixer.f.qkv_norms[0].bias)
        made = folded(network)
        assert made.reasons == ()
        assert error(network, made.network) < ROUNDING
        normed = no_final_bias(shuffled(small(position=name, depth=2, qk_norm="rms")))
        for block in normed.blocks.values():
            nn.init.zeros_(block.mixer.f.qkv_norms[0].bias)
        assert folded(normed).reasons  # queries and keys are normed again, so that a key's bias counts


some_doors = st.frozensets(st.sampled_from(["before", "before", "qkv", "within", "output", "after"]))
some_scale = st.sampled_from([1.0, 0.7, 0.0])


@given(
    doors=st.tuples(some_doors, some_doors),
    numbers=st.tuples(some_scale, some_scale, some_scale, some_scale),
    keys=st.fixed_dictionaries(
        {
            "residual": st.sampled_from([True, True, False]),
            "mixer": st.sampled_from(MIXERS),
            "qk_norm": st.sampled_from(QK_NORMS),
            "final_norm": st.sampled_from(["ln", "ln", "rms", "none"]),
            "depth": st.integers(1, 3),
        }
    ),
    biased=st.sampled_from([0.0, 0.5, 1.0]),
    same_gains=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=150)
def test_whatever_is_said_to_be_exact_is(
    doors: tuple[frozenset[str], frozenset[str]],
    numbers: tuple[float, float, float, float],
    keys: dict[str, Any],
    biased: float,
    same_gains: bool,
    seed: int,
) -> None:
    random = Random(seed)
    with scheme(*doors, **scales_of(numbers, learned=False)) as name:
        network = shuffled(small(position=name, width=8, hidden=8, **keys))
    if same_gains:
        even(network, 1.3)
    for norm in (module for module in network.modules() if isinstance(module, nn.LayerNorm)):
        if random.random() >= biased:
            nn.init.zeros_(norm.bias)
    with scheme(*doors, **scales_of(numbers, learned=False)):
        made = folded(network)
        assert made.reasons or error(network, made.network) < 1e-10


@pytest.mark.parametrize(
    ("keys", "exact"),
    [
        ({"depth": 0}, True),
        ({"norm": "none", "final_norm": "ln"}, False),
        ({"norm": "rms", "final_norm": "ln"}, False),
        ({"final_norm": "rms"}, False),
        ({"final_norm": "none"}, False),
        ({"final_norm": "ln", "position": "rezero"}, False),
    ],
)
def test_what_reads_the_stream_decides(keys: dict[str, Any], exact: bool) -> None:
    network = shuffled(small(**keys))
    if isinstance(network.final_norm, nn.LayerNorm):
        no_final_bias(network)
    made = folded(network)
    assert (made.reasons == ()) == exact
    assert (error(network, made.network) < ROUNDING) == exact


def test_back_to_layer_norm_is_exact_just_where_no_mean_is_read() -> None:
    network = no_final_bias(shuffled(small()))
    rms = folded(network).network
    assert error(network, to_layer_norm(rms).network) < ROUNDING
    other = shuffled(small(norm="rms"))
    assert error(other, to_layer_norm(other).network) > 0.1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("position", ["lns", "post"])
def test_what_is_measured(dtype: str, position: str) -> None:
    config = small(position=position, dtype=dtype, depth=3)
    network = shuffled(config, torch.float32)
    made = convert(network, "rms")
    before, fold, drop = made.measured
    wide = widened(network)
    inputs = torch.from_numpy(conversion._trainer(network).validation.inputs_nt)
    with torch.no_grad():
        gaps = {row: made_by(wide).network(inputs) - wide(inputs) for row, made_by in ((fold, folded), (drop, dropped))}
        assert made.std == pytest.approx(float(wide(inputs).std()))
    for row, gap in gaps.items():
        assert row.max_error == pytest.approx(float(gap.abs().max()), abs=1e-13)
        assert row.rms_error == pytest.approx(float(gap.square().mean().sqrt()), abs=1e-13)
    assert (made.reasons == ()) == (position == "lns")
    assert made.method == "fold"
    assert fold.rms_error < drop.rms_error
    assert before.max_error is None
    if position == "lns":
        assert fold.loss == pytest.approx(before.loss, abs=1e-5 if dtype == "float32" else 0.02)
        assert 0 < fold.run_error < (1e-4 if dtype == "float32" else 0.5)
    again = network_from(weights_bytes(made.network, made.config), origin="x")
    assert again[0] == replace(config, norm="rms", final_norm=made.config.final_norm)
    assert made.config.final_norm == ("ln" if position == "lns" else "none")


def test_the_nearer_logits_win() -> None:
    network = shuffled(small(position="sandwich", mixer="linear"))
    made = convert(network.float(), "rms", final_norm="rms")
    errors = {row.name: row.rms_error for row in made.measured if row.rms_error is not None}
    assert made.method == min(errors, key=errors.__getitem__)
    assert len(errors) == 2


def test_calibration_trains_the_converted_weights_and_gives_the_same_every_time() -> None:
    network = shuffled(small(position="post", depth=2, lr=1e-3), torch.float32)
    short, long, again = (convert(network, "rms", calibrate=steps) for steps in (1, 30, 30))
    _, fold, _, calibrated = long.measured
    assert calibrated.name == "calibrated, 30 steps"
    assert calibrated.loss < fold.loss - 0.1
    assert calibrated.loss < short.measured[-1].loss < fold.loss + 0.1
    assert weights_bytes(long.network, long.config) == weights_bytes(again.network, again.config)
    assert long.config.steps == 20
    assert long.network.config == long.config


@pytest.mark.parametrize(
    ("keys", "to", "said"),
    [
        ({"norm": "rms"}, "rms", "replaces LayerNorm, and this network has rms in"),
        ({}, "ln", "replaces RMSNorm, and this network has ln in"),
        ({"norm": "none"}, "rms", "has no norm in"),
        ({"position": "rezero"}, "rms", "has no norm in"),
        ({"norm": "bn"}, "rms", "has bn in"),
        ({"norm": "none", "final_norm": "ln"}, "rms", "nothing to replace: the final norm stays LayerNorm"),
    ],
)
def test_nothing_to_convert(keys: dict[str, Any], to: str, said: str) -> None:
    with pytest.raises(UserError) as fault:
        convert(shuffled(small(**keys), torch.float32), to)
    assert said in str(fault.value)


def test_a_calibration_that_breaks_is_told() -> None:
    with pytest.raises(UserError, match=r"--calibrate 9: the \w+ of step \d is not finite"):
        convert(shuffled(small(optimizer="sgd", lr=1e30), torch.float32), "rms", calibrate=9)


def test_weights_that_are_not_finite_can_be_converted() -> None:
    network = shuffled(small(), torch.float32)
    nn.init.constant_(network.head.weight, float("nan"))
    made: Conversion = convert(network, "rms")
    assert made.method == "fold"
    assert made.measured[1].rms_error != made.measured[1].rms_error
    assert "more than rounding" in made.reasons[0], "what cannot be compared is not called exact"


@pytest.mark.parametrize(("qk_norm", "told"), [("ln", True), ("rms", False), ("none", False)])
def test_norms_of_queries_and_keys_stay_and_are_told(qk_norm: str, told: bool) -> None:
    made = convert(shuffled(small(qk_norm=qk_norm, final_norm="none"), torch.float32), "rms")
    assert made.config.qk_norm == qk_norm
    assert ("norms of queries and keys stay LayerNorm" in made.remark) == told


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    told = "\n".join(done.exception.complaints) if isinstance(done.exception, UserError) else ""
    assert told or done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return 2 if told else done.exit_code, done.stdout, told or done.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    config = small(depth=2)
    path = tmp_path / "net.safetensors"
    path.write_bytes(weights_bytes(shuffled(config, torch.float32), config))
    return path


class TestCommand:
    def test_writes_a_file_that_loads_and_prints_what_it_measured(self, file: Path, tmp_path: Path) -> None:
        target = tmp_path / "rms.safetensors"
        code, told, _ = run(file, target, "--to", "rms", "--calibrate", "3")
        assert code == 0
        rows = [line.split("  ")[0] for line in told.splitlines()]
        assert rows[:2] == ["Norm rms, final norm ln: fold", "weights"]
        assert rows[3:7] == ["before", "fold", "biases dropped", "calibrated, 3 steps"]
        assert "Exact: the logits are those of before, up to rounding. The final norm stays LayerNorm" in told
        config, _ = network_from(target.read_bytes(), origin="")
        assert (config.norm, config.final_norm) == ("rms", "ln")
        history = header_of(target.read_bytes(), "").metadata["normexp_history"]
        assert history == f"exact conversion (fold) of {file}, then 3 steps of training"

    def test_there_and_back(self, file: Path, tmp_path: Path) -> None:
        there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
        assert run(file, there, "--to", "rms", "--final-norm", "rms")[0] == 0
        code, told, _ = run(there, back, "--to", "ln")
        assert code == 0
        assert "Approximate: LayerNorm subtracts the mean" in told
        assert network_from(back.read_bytes(), origin="")[0] == small(depth=2)

    def test_overwrites_with_force_alone(self, file: Path, tmp_path: Path) -> None:
        target = tmp_path / "rms.safetensors"
        target.write_text("mine")
        code, _, said = run(file, target, "--to", "rms")
        assert (code, target.read_text()) == (2, "mine")
        assert said == f"{target} is there already: choose another name, or overwrite it with --force"
        assert run(file, target, "--to", "rms", "--force")[0] == 0
        assert network_from(target.read_bytes(), origin="")[0].norm == "rms"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("{net}", "{new}", "--to", "ln"), "--to ln replaces RMSNorm, and this network has ln"),
            (("{net}", "{new}", "--to", "ln", "--final-norm", "rms"), "--final-norm is for --to rms"),
            (("{net}", "{folder}", "--to", "rms", "--force"), "name ends in .safetensors"),
            (("{net}", "{folder}/no/x.safetensors", "--to", "rms"), "/no is no folder: make it first"),
            (("{folder}/no.safetensors", "{new}", "--to", "rms"), "no.safetensors: no such file"),
            (("{folder}/net.pt", "{new}", "--to", "rms"), "net.pt: files of torch.save can run code"),
            (("d9-nothing", "{new}", "--to", "rms", "--out", "{folder}"), "d9-nothing: no run of that id"),
            (("{net}", "{new}", "--to", "rms", "--config", "dpeth=3"), "unknown key 'dpeth'; did you mean depth"),
            (("{net}", "{new}", "--to", "rms", "--config", "depth=3,4"), "one network has one value"),
            (("{net}", "{new}", "--to", "rms", "--config", "depth=3"), "is of a network with depth=2, not 3"),
            (("{net}", "{new}", "--to", "rms", "--config", "{folder}/no.yaml"), "no.yaml"),
            (("{net}", "{new}", "--to", "rms", "--config", "{folder}/two.yaml"), "has 2 runs: choose one"),
            (("{net}", "{new}", "--to", "rms", "--config", "heads=3"), "heads: 3 does not divide width 64"),
        ],
    )
    def test_what_cannot_be_done_is_told_and_nothing_written(
        self, file: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
    ) -> None:
        (tmp_path / "two.yaml").write_text("grid: {lr: [1e-3, 1e-2]}\n")
        before = sorted(tmp_path.iterdir())
        places = {"net": file, "new": tmp_path / "new.safetensors", "folder": tmp_path}
        code, printed, told = run(*(argument.format(**places) for argument in arguments))
        assert code == 2
        assert said in told
        assert printed == ""
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize("by_file", [True, False])
    def test_a_file_from_elsewhere_with_its_network_told(self, file: Path, tmp_path: Path, by_file: bool) -> None:
        from safetensors.torch import load, save

        file.write_bytes(save(load(file.read_bytes())))
        target = tmp_path / "rms.safetensors"
        assert "--config key=value" in run(file, target, "--to", "rms")[2]
        keys = {"depth": 2, "width": 16, "hidden": 24, "vocab": 11, "order": 1}
        (tmp_path / "net.yaml").write_text(f"base: {keys}\n".replace("'", "") + "grid: {seed: [0, 1]}\n")
        pairs = [f"{key}={value}" for key, value in keys.items()]
        given = [str(tmp_path / "net.yaml"), "seed=1"] if by_file else pairs
        options = itertools.chain.from_iterable(("--config", text) for text in given)
        assert run(file, target, "--to", "rms", *options)[0] == 0
        assert network_from(target.read_bytes(), origin="")[0].depth == 2
