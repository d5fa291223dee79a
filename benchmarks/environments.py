"""A virtual environment for each tool that is compared, made where it is missing or its requirements have changed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from benchmarks.harness import FOLDER

ROOT = FOLDER.parent
CONSTRAINTS = ROOT / "constraints.txt"
OURS = "normexp"


class CannotInstall(Exception):
    """What pip said last, or why there is no environment."""


def environment(tool: str) -> Path:
    """The folder of programs (bin) of a tool's own environment. Raises CannotInstall."""
    folder = FOLDER / ".envs" / tool
    programs, stamp = folder / "bin", folder / "installed"
    wanted = _wanted(tool)
    if stamp.exists() and stamp.read_text() == wanted:
        return programs
    print(f"installing {tool} into {folder} (once)", flush=True)
    try:
        venv.create(folder, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as fault:
        raise CannotInstall(f"no virtual environment: {fault}") from fault
    install = [programs / "python", "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, *_what(tool)]
    pip = subprocess.run(list(map(str, install)), capture_output=True, text=True)
    if pip.returncode:
        raise CannotInstall((pip.stderr.strip().splitlines() or ["pip gave no reason"])[-1])
    stamp.write_text(wanted)
    return programs


def _requirements(tool: str) -> Path:
    return FOLDER / "peers" / f"requirements-{tool}.txt"


def _what(tool: str) -> list[str | Path]:
    return ["--editable", ROOT] if tool == OURS else ["--requirement", _requirements(tool)]


def _wanted(tool: str) -> str:
    """Everything that the environment depends on: another text makes it again."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = str(pyproject["project"]) if tool == OURS else _requirements(tool).read_text()
    return f"{sys.version}\n{CONSTRAINTS.read_text()}\n{requirements}"
