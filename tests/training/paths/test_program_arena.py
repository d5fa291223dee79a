"""Memory for buffers: zeros, aligned, apart from each other, on any system."""

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
    return all(one[1] <= other[0] for one, other in pairwise(spans))


@given(shapes=SHAPES)
@settings(max_examples=30, deadline=None)
def test_zeros_of_any_shapes_lie_apart_each_at_a_cache_line(shapes: list[tuple[int, ...]]) -> None:
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


def test_the_first_begins_at_a_large_page_and_the_next_ones_follow() -> None:
    source = Arena()
    one, other = source.zeros(16), source.zeros(3)
    assert one.data_ptr() % PAGE_BYTES == 0
    assert other.data_ptr() == one.data_ptr() + 64


def test_a_tensor_has_a_storage_of_its_own() -> None:
    """Else autograd would take a write into one for a change of the other."""
    source = Arena()
    one, other = source.zeros(4), source.zeros(4)
    version = one._version
    other.add_(1)
    assert one._version == version
    assert one.untyped_storage().nbytes() == 16


def test_more_than_a_chunk_at_once_and_what_does_not_fit_into_the_rest() -> None:
    source = Arena()
    elements = CHUNK_BYTES // 4
    tensors = [source.zeros(*shape) for shape in ((8,), (elements,), (2, elements), (8,), (elements - 16,), (17,))]
    assert apart(tensors)
    for tensor in tensors:
        tensor.view(-1)[-1] = 1.0  # the last page is there
    assert tensors[3].data_ptr() % PAGE_BYTES == 0


def test_it_outlives_its_arena() -> None:
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
