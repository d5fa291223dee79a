"""Weights of a network as the bytes of a safetensors file, and back: names and shapes are checked, nothing is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from normexp.config.run import KEYS, RunConfig, config_from
from normexp.errors import UserError
from normexp.model.network import Network, build
from normexp.records.numerics import numerics

FORMAT = 1
"""Raised when the names or the meaning of tensors or metadata change."""
CONFIG, RUN, HISTORY = "normexp_config", "normexp_run_id", "normexp_history"
VERSION, NUMBERS = "normexp_format", "normexp_numerics"
"""Keys of the metadata, whose values are texts: config (JSON) and its id, how the weights came to be; whole numbers."""
METADATA = "__metadata__"
WIDENED = ("F32", "BF16", "F16")
"""Types in files that a float32 tensor holds exactly; any other tensor has one type."""
TYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""How files of torch.save and pickle begin."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the tensors of a file: metadata, and each tensor's type and shape by its name."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Every parameter, once where modules share it, and every stored buffer (running statistics), by name."""
    stored = set(network.state_dict())
    named = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items() if name in stored}


def weights_bytes(network: nn.Module, config: RunConfig, *, history: str = "") -> bytes:
    """A safetensors file with the network's weights and its config; equal weights give equal bytes."""
    metadata = {CONFIG: json.dumps(config.to_dict()), RUN: config.run_id}
    metadata |= {VERSION: str(FORMAT), NUMBERS: str(numerics(config))}
    if history:
        metadata[HISTORY] = history
    data = save({name: tensor.clone().contiguous() for name, tensor in tensors_of(network).items()}, metadata)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header[METADATA] = dict(sorted(header[METADATA].items()))  # the library leaves their order to chance
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def network_from(data: bytes, *, origin: str, config: RunConfig | None = None) -> tuple[RunConfig, Network]:
    """The network that a file holds, in float32, built from the config in the file, or a given one if it has none.

    `origin` names the file in complaints. Raises UserError for anything but a whole safetensors file, where there is no
    config, where that of the file is another than is given, and at the first tensor that is missing, unexpected, or of
    another shape or type.
    """
    header = header_of(data, origin)
    if config is None or CONFIG in header.metadata:
        stored = stored_config(header, origin)
        _compare(config or stored, stored, origin)
        config = stored
    _check(header, config, origin)
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, OSError, RuntimeError, TypeError, ValueError) as fault:
        raise UserError(f"{origin} is damaged: {_clean(str(fault))}") from fault
    try:
        network = build(config)  # only now is it sure that the file holds as many numbers as the network
    except (MemoryError, RuntimeError) as fault:
        raise UserError(f"{origin}: the network of its config cannot be made: {_clean(str(fault))}") from fault
    with torch.no_grad():
        for name, tensor in tensors_of(network).items():
            tensor.copy_(tensors[name])
    return config, network


def header_of(data: bytes, origin: str) -> Header:
    """The header of a file. Raises UserError where it is no safetensors file."""
    if not data:
        raise UserError(f"{origin} is empty: it holds no weights")
    if data[8:9] != b"{":
        if data.startswith(PICKLES):
            raise UserError(
                f"{origin} is a file of torch.save or pickle, which can run code when it is read, so it is not: write "
                "its state dict with safetensors.torch.save_file, and give that file"
            )
        raise UserError(f"{origin} is no safetensors file, or damaged: it does not begin as one")
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise UserError(f"{origin} is damaged or cut: its header has {size} bytes, and the file {len(data)}")
    try:
        read = json.loads(data[8 : 8 + size].decode("utf-8"))
        return Header(
            metadata=_metadata(read.pop(METADATA, None) or {}),
            tensors={name: (str(entry["dtype"]), _shape(entry["shape"])) for name, entry in read.items()},
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise UserError(f"{origin} is damaged: its header is not that of a safetensors file") from None


def stored_config(header: Header, origin: str) -> RunConfig:
    """The config in the metadata. Raises UserError where there is none, or none that this program understands."""
    if CONFIG not in header.metadata:
        raise UserError(
            f"{origin} does not say what network it is of: say it with --config key=value, such as "
            "--config depth=6 --config norm=ln, or --config FILE.yaml"
        )
    version = header.metadata.get(VERSION, "")
    if not version.isdecimal() or int(version[:9]) > FORMAT:
        raise UserError(f"{origin}: format {_clean(version)!r} of weights is not known: written by a newer normexp?")
    try:
        values = json.loads(header.metadata[CONFIG])
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        config = config_from(values)
    except (RecursionError, TypeError, ValueError) as fault:
        raise UserError(*(f"{origin}: config: {_clean(line)}" for line in str(fault).splitlines())) from fault
    if header.metadata.get(RUN, config.run_id) != config.run_id:
        why = "its plugin has changed since" if config.plugins() else "its metadata contradict each other"
        raise UserError(f"{origin}: weights of {_clean(header.metadata[RUN])}, not of {config.run_id}: {why}")
    return config


def _compare(given: RunConfig, stored: RunConfig, origin: str) -> None:
    """Raise UserError at the first key in which a network that is asked for is another than that of the file."""
    one, two = given.canonical(), stored.canonical()
    for key in KEYS:
        if getattr(one, key) != getattr(two, key):
            raise UserError(f"{origin} is of a network with {key}={getattr(two, key)}, not {getattr(one, key)}")


def _metadata(read: Any) -> dict[str, str]:
    if not all(isinstance(value, str) for value in read.values()):
        raise ValueError("metadata are texts")
    return dict(read)


def _shape(sizes: Any) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a shape is a list of whole numbers")
    return tuple(sizes)


def _check(header: Header, config: RunConfig, origin: str) -> None:
    """Raise UserError at the first tensor that is not as the config's network has it."""
    # A file holds at least a tensor a layer: so a config cannot ask for more layers than its file has tensors.
    shallow = replace(config, depth=min(config.depth, len(header.tensors) + 1))
    with torch.device("meta"):
        expected = {name: (TYPES[t.dtype], tuple(t.shape)) for name, t in tensors_of(Network(shallow)).items()}
    told = f"the network of its config (depth {config.depth}, norm {config.norm}, position {config.position}, ...)"
    for name, (kind, shape) in expected.items():
        if name not in header.tensors:
            raise UserError(f"{origin} has no tensor {name}, of shape {_sizes(shape)}, which {told} has")
        found_kind, found = header.tensors[name]
        if found != shape:
            raise UserError(f"{origin}: {name} has shape {_sizes(found)}, and in {told} {_sizes(shape)}")
        allowed = WIDENED if kind == "F32" else (kind,)
        if found_kind not in allowed:
            raise UserError(f"{origin}: {name} is of type {_clean(found_kind)}: write it as {' or '.join(allowed)}")
    for name, (_, shape) in header.tensors.items():
        if name not in expected:
            raise UserError(f"{origin} has a tensor {_clean(name)}, of shape {_sizes(shape)}, which {told} has not")


def _sizes(shape: tuple[int, ...]) -> str:
    return _clean("×".join(map(str, shape)) or "() (a scalar)")


def _clean(text: str) -> str:
    """A piece of a file in a complaint: printable, and not long."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= 200 else text[:200] + "..."
