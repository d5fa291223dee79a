"""Damaged and hostile files of weights are refused, and nothing in them is ever run."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from weightbytes import CONFIG, DATA, TENSORS, read, small, tampered, with_header

from normexp.errors import UserError
from normexp.model.network import Network, build
from normexp.storage import outputs
from normexp.training.weights import network_from, tensors_of


def test_a_config_of_a_giant_is_refused_by_a_short_file() -> None:
    giant = small(depth=10_000, width=2**20, hidden=2**20, heads=1)
    with pytest.raises(UserError, match=r"embedding\.weight has shape 8×8"):
        read(tampered(lambda t: None, giant))
    with torch.device("meta"):
        shapes = {name: list(tensor.shape) for name, tensor in tensors_of(Network(small(width=2**20, depth=0))).items()}
    entries = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    with pytest.raises(UserError, match="is damaged: Error while deserializing"):
        read(with_header(json.dumps(entries).encode()), small(width=2**20, depth=0))


@pytest.mark.parametrize(
    ("metadata", "fact"),
    [
        ({"normexp_format": "2"}, "'2'"),
        ({"normexp_format": "-1"}, "'-1'"),
        ({"normexp_config": "[1]"}, "JSON object"),
        ({"normexp_config": "{"}, "Expecting"),
        ({"normexp_config": '{"depht": 3}'}, "depht"),
        ({"normexp_config": '{"depth": "x", "width": -1}'}, "depth: 'x'"),
        ({"normexp_config": '{"norm": "mine"}'}, "--plugin"),
        ({"normexp_config": "[" * 100_000}, "config"),
    ],
)
def test_invalid_metadata_is_refused(metadata: dict[str, str], fact: str) -> None:
    whole = {"normexp_config": json.dumps(CONFIG.to_dict()), "normexp_format": "1"}
    with pytest.raises(UserError) as fault:
        read(save(dict(TENSORS), whole | metadata))
    assert fact in fault.value.complaints[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        b"hello, I am a text file",
        with_header(b"{", 2**63),
        with_header(b"{", 2**30),
        with_header(b"{}x"),
        with_header(b'{"a":' * 50_000),
        with_header(b'{"a": 3}'),
        with_header(b'{"a": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}}'),
        with_header(b'{"a": {"dtype": "F32", "shape": [-3], "data_offsets": [0, 4]}}'),
        with_header(b'{"__metadata__": {"normexp_config": 3}}'),
        with_header(b'{"__metadata__": []}'),
    ],
)
def test_invalid_weights_are_refused(data: bytes) -> None:
    with pytest.raises(UserError, match=r"here\.safetensors"):
        read(data)


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def open_file(path: Path) -> None:
    data, origin = outputs.read(path.parent / "results", str(path))
    network_from(data, origin=origin)


@pytest.mark.parametrize("name", ["net.pt", "net.bin", "net.safetensors"])
def test_pickles_are_refused_and_never_run(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "made"
    for dump in (torch.save, lambda bomb, path: path.write_bytes(pickle.dumps(bomb))):
        dump(Bomb(marker), tmp_path / name)
        with pytest.raises(UserError, match=r"safetensors\.torch\.save_file"):
            open_file(tmp_path / name)
        assert not marker.exists()
        pickle.loads(pickle.dumps(Bomb(marker)))
        assert marker.exists()
        marker.unlink()


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
def test_flipped_bytes_of_the_header_are_reported_or_change_only_keys(flips: list[tuple[int, int]]) -> None:
    data = bytearray(DATA)
    for at, flip in flips:
        data[at] ^= flip
    complaint_lines = complaints(bytes(data))
    assert all("here" in line and line.isprintable() for line in complaint_lines)
    if not complaint_lines:
        config, network = read(bytes(data))
        assert tensors_of(network).keys() == tensors_of(build(config)).keys()


@given(st.integers(HEADER, len(DATA) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=30)
def test_flipped_bytes_of_a_tensor_are_not_noticed(at: int, flip: int) -> None:
    data = bytearray(DATA)
    data[at] ^= flip
    assert read(bytes(data))[0] == CONFIG
