"""The Makefile: what a goal installs first."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize(
    ("goal", "extras", "command"),
    [("demo", False, "normexp sweep configs/lr_scan.yaml"), ("test", True, "-m pytest"), ("lint", True, "mypy")],
)
def test_only_development_installs_the_development_extras(
    goal: str, extras: bool, command: str, tmp_path: Path
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(["make", "-n", goal], cwd=tmp_path, capture_output=True, text=True, check=True)
    (install,) = [line for line in done.stdout.splitlines() if "pip install" in line]
    assert ("[dev]" in install) is extras
    assert command in done.stdout
