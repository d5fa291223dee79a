"""One torch thread in the tests, as in every run."""

import os
import sys

import pytest
from hypothesis import settings

settings.register_profile("suite", derandomize=True)
settings.register_profile("search")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
"""The same examples every time; HYPOTHESIS_PROFILE=search looks for others."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
