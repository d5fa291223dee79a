"""One torch thread in the tests, as in every run."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    yield
