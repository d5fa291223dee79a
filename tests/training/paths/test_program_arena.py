"""The arena of buffers: zeroed, aligned, disjoint, on any system."""

from __future__ import annotations

import mmap
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from normexp.training.paths import tape
from normexp.training.paths.tape import CHUNK_BYTES, PAGE_BYTES, Arena

SHAPES = st.lists(st.lists(st.integers(1, 40), max_size=3).map(tuple), min_size=2, max_size=30)


def apart(tensors: list[Tensor]) -> bool:
    spans = sorted((tensor.data_ptr(), tensor.data_ptr() + 4 * tensor.numel()) for tensor in tensors)
    return all(first[1] <= second[0] for first, second in pairwise(spans))


@given(shapes=SHAPES)
@settings(max_examples=30, deadline=None)
def test_tensors_of_any_shape_are_disjoint_and_aligned(shapes: list[tuple[int, ...]]) -> None:
    source = Arena()
    tensors = []
    for number, shape in enumerate(shapes, start=1):
        tensor = source.zeros(*shape)
        assert tensor.shape == shape
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
        assert not tensor.any()
        assert tensor.data_ptr() % 64 == 0
        tensors.append(tensor.fill_(number))
    assert apart(tensors)
    assert all(bool((tensor == number).all()) for number, tensor in enumerate(tensors, start=1))


def test_the_first_tensor_starts_at_a_large_page_and_others_follow() -> None:
    source = Arena()
    first, second = source.zeros(16), source.zeros(3)
    assert first.data_ptr() % PAGE_BYTES == 0
    assert second.data_ptr() == first.data_ptr() + 64


def test_tensors_have_separate_storage() -> None:
    """Otherwise autograd would take a write into one for a change of another."""
    source = Arena()
    first, second = source.zeros(4), source.zeros(4)
    version = first._version
    second.add_(1)
    assert first._version == version
    assert first.untyped_storage().nbytes() == 16


def test_tensors_larger_than_a_chunk_or_its_rest() -> None:
    source = Arena()
    elements = CHUNK_BYTES // 4
    tensors = [source.zeros(*shape) for shape in ((8,), (elements,), (2, elements), (8,), (elements - 16,), (17,))]
    assert apart(tensors)
    for tensor in tensors:
        tensor.view(-1)[-1] = 1.0  # the last page is mapped
    assert tensors[3].data_ptr() % PAGE_BYTES == 0


def test_a_tensor_outlives_its_arena() -> None:
    tensor = Arena().zeros(1000)
    Arena().zeros(1000).fill_(1)
    assert not tensor.any()


class _Refusing(mmap.mmap):
    def madvise(self, *_: object) -> None:
        raise OSError(22, "Invalid argument")


@pytest.mark.parametrize("system", ["without the advice", "a kernel that refuses it"])
def test_systems_without_large_pages(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system == "without the advice":
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    else:
        monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
        monkeypatch.setattr(tape.mmap, "mmap", _Refusing)
    assert not Arena().zeros(5, 5).any()
