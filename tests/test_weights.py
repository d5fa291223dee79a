"""Weights as bytes: whole and right, or one plain complaint; nothing in a file is ever run."""

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from normexp.errors import UserError
from normexp.nn.network import Network, build
from normexp.norms import NORMS
from normexp.results import weightfile
from normexp.run import DTYPES, MIXERS, QK_NORMS, RunConfig
from normexp.schemes import SCHEMES
from normexp.training.trainer import Trainer
from normexp.training.weights import header_of, network_from, tensors_of, weights_bytes


def small(**keys: Any) -> RunConfig:
    return RunConfig(**{"depth": 2, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 4, "order": 1, **keys})


def shuffled(config: RunConfig) -> Network:
    """Random numbers in every parameter and statistic."""
    network = build(config)
    generator = torch.Generator().manual_seed(2)
    for tensor in tensors_of(network).values():
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * 9)
    return network


def read(data: bytes, config: RunConfig | None = None) -> tuple[RunConfig, Network]:
    return network_from(data, origin="here.safetensors", config=config)


def same(one: Network, other: Network) -> bool:
    pairs = zip(tensors_of(one).items(), tensors_of(other).items(), strict=True)
    return all(a == b and torch.equal(x, y) and x.dtype == y.dtype for (a, x), (b, y) in pairs)


CONFIG = small()
DATA = weights_bytes(shuffled(CONFIG), CONFIG)
TENSORS: Mapping[str, Tensor] = tensors_of(shuffled(CONFIG))


@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", ["none", *NORMS])
def test_every_scheme_and_norm_comes_back(position: str, norm: str) -> None:
    config = small(position=position, norm=norm)
    network = shuffled(config)
    found, again = read(weights_bytes(network, config))
    assert found == config
    assert same(network, again)
    tokens = torch.arange(8).view(2, 4)
    assert torch.equal(network.eval()(tokens), again.eval()(tokens))


@pytest.mark.parametrize(
    "keys",
    [
        *({"mixer": m} for m in MIXERS),
        *({"qk_norm": q} for q in QK_NORMS),
        *({"dtype": d} for d in DTYPES),
        {"depth": 0},
    ],
)
def test_every_mixer_qk_norm_and_dtype_comes_back(keys: dict[str, Any]) -> None:
    config = small(**keys)
    network = shuffled(config)
    found, again = read(weights_bytes(network, config))
    assert (found, same(network, again)) == (config, True)


def test_running_statistics_of_a_trained_network_come_back() -> None:
    config = small(norm="bn")
    trainer = Trainer(config)
    trainer.step(1, next(trainer.task.batches(0, 4)))
    _, again = read(weights_bytes(trainer.network, config))
    assert torch.equal(again.final_norm.running_mean, trainer.network.final_norm.running_mean)
    assert again.final_norm.running_mean.any()
    assert again.final_norm.num_batches_tracked == 1


def test_a_scalar_that_two_branches_share_stands_once_and_reaches_both() -> None:
    config = small(position="rezero")
    network = shuffled(config)
    data = weights_bytes(network, config)
    names = header_of(data, "").tensors
    assert "blocks.1.mixer.branch_out.factor" in names
    assert "blocks.1.ffn.branch_out.factor" not in names
    block = read(data)[1].blocks["1"]
    assert block.ffn.branch_out.factor is block.mixer.branch_out.factor


def test_equal_weights_give_equal_bytes_whoever_holds_them() -> None:
    trainer = Trainer(CONFIG)  # its parameters are views of one buffer
    assert weights_bytes(trainer.network, CONFIG) == weights_bytes(build(CONFIG), CONFIG)
    keys = list(header_of(weights_bytes(build(CONFIG), CONFIG, history="made up"), "").metadata)
    assert keys == ["normexp_config", "normexp_format", "normexp_history", "normexp_numerics", "normexp_run_id"]


def tampered(change: Callable[[dict[str, Tensor]], object], config: RunConfig = CONFIG) -> bytes:
    tensors = {name: tensor.clone() for name, tensor in TENSORS.items()}
    change(tensors)
    return save(tensors, {"normexp_config": json.dumps(config.to_dict()), "normexp_format": "1"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("head.weight"), "has no tensor head.weight, of shape 8×8"),
        (lambda t: [t.pop(name) for name in list(t)[2:]], "has no tensor blocks.1.mixer.before.weight, of shape 8,"),
        (lambda t: t.update({"head.bias": torch.ones(8)}), "has a tensor head.bias, of shape 8, which"),
        (
            lambda t: t.update({"final_norm.bias": torch.ones(9)}),
            "final_norm.bias has shape 9, and in the network of its config (depth 2, norm ln, position pre, ...) 8",
        ),
        (lambda t: t.update({"final_norm.bias": torch.ones(())}), "final_norm.bias has shape () (a scalar), and in"),
        (
            lambda t: t.update({"final_norm.bias": torch.ones(8).double()}),
            "final_norm.bias is of type F64: write it as F32 or BF16 or F16",
        ),
        (lambda t: t.update({"evil\x1b[2J": torch.ones(2)}), "has a tensor evil?[2J, of shape 2"),
    ],
)
def test_the_first_tensor_that_does_not_fit_is_named(change: Callable[[dict[str, Tensor]], object], said: str) -> None:
    with pytest.raises(UserError) as fault:
        read(tampered(change))
    assert fault.value.complaints[0].startswith("here.safetensors")
    assert said in fault.value.complaints[0]


def test_another_config_than_the_files_names_what_it_lacks() -> None:
    bare = save(load(DATA))
    with pytest.raises(UserError, match=r"has a tensor blocks\.1\.ffn\.before\.bias, of shape 8, which .*norm rms"):
        read(bare, small(norm="rms"))
    with pytest.raises(UserError, match=r"has no tensor blocks\.3\.mixer\.before\.weight, of shape 8, which .*depth 9"):
        read(bare, small(depth=9))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"position": "lns"}, "position=pre, not lns"),
        ({"heads": 1}, "heads=2, not 1"),
        ({"eps": 1e-3}, "eps=1e-05, not 0.001"),
        ({"norm": "rms"}, "norm=ln, not rms"),
    ],
)
def test_a_file_is_of_the_network_that_it_says(keys: dict[str, Any], said: str) -> None:
    """Shapes alone do not tell these apart."""
    with pytest.raises(UserError, match=f"is of a network with {said}"):
        read(DATA, small(**keys))
    assert read(DATA, small(post_share=0.7))[0] == read(DATA)[0], "a key that does not matter"


def test_a_config_of_a_giant_is_refused_by_a_short_file() -> None:
    giant = small(depth=10_000, width=2**20, hidden=2**20, heads=1)
    with pytest.raises(UserError, match=r"embedding\.weight has shape 8×8"):
        read(tampered(lambda t: None, giant))
    with torch.device("meta"):
        shapes = {name: list(tensor.shape) for name, tensor in tensors_of(Network(small(width=2**20, depth=0))).items()}
    entries = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    with pytest.raises(UserError, match="is damaged: Error while deserializing"):
        read(with_header(json.dumps(entries).encode()), small(width=2**20, depth=0))


def test_a_network_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(config: RunConfig) -> Network:
        raise RuntimeError("you tried to allocate 8000000000 bytes")

    monkeypatch.setattr("normexp.training.weights.build", build)
    with pytest.raises(UserError, match="cannot be made: you tried to allocate 8000000000 bytes"):
        read(DATA)


def test_a_file_from_elsewhere_needs_a_config_and_may_have_16_bits() -> None:
    halves = {name: tensor.bfloat16() for name, tensor in TENSORS.items()}
    data = save(halves)
    with pytest.raises(UserError, match=r"does not say what network it is of: say it with --config"):
        read(data)
    _, network = read(data, CONFIG)
    assert torch.equal(network.head.weight, halves["head.weight"].float())


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"normexp_format": "2"}, "format '2' of weights is not known"),
        ({"normexp_format": "-1"}, "format '-1' of weights"),
        ({"normexp_config": "[1]"}, "config: not a JSON object"),
        ({"normexp_config": "{"}, "config: Expecting"),
        ({"normexp_config": '{"depht": 3}'}, "config: unknown keys depht"),
        ({"normexp_config": '{"depth": "x", "width": -1}'}, "config: depth: 'x' is not a number"),
        ({"normexp_config": '{"norm": "mine"}'}, "config: norm 'mine' is of a plugin: give its file with --plugin"),
        ({"normexp_config": "[" * 100_000}, "config: "),
    ],
)
def test_metadata_that_cannot_be_used_are_told(metadata: dict[str, str], said: str) -> None:
    whole = {"normexp_config": json.dumps(CONFIG.to_dict()), "normexp_format": "1"}
    with pytest.raises(UserError) as fault:
        read(save(dict(TENSORS), whole | metadata))
    assert said in fault.value.complaints[0]


def with_header(text: bytes, size: int | None = None) -> bytes:
    return (len(text) if size is None else size).to_bytes(8, "little") + text + b"\0" * 64


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\0" * 7, "is no safetensors file"),
        (b"hello, I am a text file", "is no safetensors file"),
        (with_header(b"{", 2**63), "its header has 9223372036854775808 bytes, and the file 73"),
        (with_header(b"{", 2**30), "is damaged or cut"),
        (with_header(b"{}x"), "is damaged: its header"),
        (with_header(b'{"a":' * 50_000), "is damaged: its header"),
        (with_header(b'{"a": 3}'), "is damaged: its header"),
        (with_header(b'{"a": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}}'), "is damaged: its header"),
        (with_header(b'{"a": {"dtype": "F32", "shape": [-3], "data_offsets": [0, 4]}}'), "is damaged: its header"),
        (with_header(b'{"__metadata__": {"normexp_config": 3}}'), "is damaged: its header"),
        (with_header(b'{"__metadata__": []}'), "does not say what network it is of"),
    ],
)
def test_what_is_no_file_of_weights_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(UserError) as fault:
        read(data)
    assert said in str(fault.value)


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def open_file(path: Path) -> None:
    data, origin = weightfile.read(path.parent / "results", str(path))
    network_from(data, origin=origin)


@pytest.mark.parametrize("name", ["net.pt", "net.bin", "net.safetensors"])
def test_pickles_are_refused_and_never_run(tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    for dump in (torch.save, lambda bomb, path: path.write_bytes(pickle.dumps(bomb))):
        dump(Bomb(made), tmp_path / name)
        with pytest.raises(UserError, match=r"write .* state dict with safetensors\.torch\.save_file"):
            open_file(tmp_path / name)
        assert not made.exists()
        pickle.loads(pickle.dumps(Bomb(made)))
        assert made.exists()
        made.unlink()


@given(st.integers(0, len(DATA) - 1))
@settings(deadline=None)
def test_a_file_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(UserError, match="here"):
        read(DATA[:length])


HEADER = 8 + int.from_bytes(DATA[:8], "little")


def complaints(data: bytes) -> list[str]:
    try:
        read(data)
    except UserError as fault:
        return list(fault.complaints)
    return []


@given(st.lists(st.tuples(st.one_of(st.integers(0, 200), st.integers(0, HEADER)), st.integers(1, 255)), min_size=1))
@settings(deadline=None, max_examples=300)
def test_flipped_bytes_of_the_header_are_told_or_change_nothing_but_keys(flips: list[tuple[int, int]]) -> None:
    data = bytearray(DATA)
    for at, flip in flips:
        data[at] ^= flip
    told = complaints(bytes(data))
    assert all("here" in line and line.isprintable() for line in told)
    if not told:
        config, network = read(bytes(data))
        assert tensors_of(network).keys() == tensors_of(build(config)).keys()


@given(st.integers(HEADER, len(DATA) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=30)
def test_flipped_bytes_of_a_tensor_are_other_numbers(at: int, flip: int) -> None:
    data = bytearray(DATA)
    data[at] ^= flip
    assert read(bytes(data))[0] == CONFIG
