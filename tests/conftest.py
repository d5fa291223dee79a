"""One torch thread in the tests, as in every run."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
