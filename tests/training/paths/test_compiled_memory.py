"""No kernel accesses memory outside its buffers: built with sanitizers, and run by a driver program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from normexp.training.paths.compiled.library import FLAGS, SOURCES

DRIVER = Path(__file__).parents[2] / "support" / "kernel_driver.cpp"
SANITIZERS = "address,bounds,shift,integer-divide-by-zero,signed-integer-overflow,return,unreachable,bool,enum"
"""The null and alignment checks are left out, since they take minutes to build. The address sanitizer detects null
pointers, and vectors only need the alignment of floats."""
BUILDS = [("g++", "native"), ("clang++", "native"), ("g++", "x86-64")]
"""Compilers and processors. Each build takes 30 s."""


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "processor"), BUILDS)
def test_no_kernel_leaves_its_buffers(compiler: str, processor: str, tmp_path: Path) -> None:
    """Uses `-O1`, which builds fast and keeps every access."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    if processor != "native" and os.uname().machine != "x86_64":
        pytest.skip("another processor")
    flags = [flag for flag in FLAGS if not flag.startswith(("-O", "-march"))]
    flags += f"-O1 -march={processor} -g -fsanitize={SANITIZERS} -fno-sanitize-recover=all".split()
    flags.append(f"-I{SOURCES}")
    sources = [str(path) for path in SOURCES.glob("*.cpp")]
    built = tmp_path / "driver"
    command = [compiler, *flags, "-o", str(built), str(DRIVER), *sources]
    subprocess.run(command, check=True, timeout=1500, capture_output=True)
    done = subprocess.run([str(built)], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "processor"), BUILDS)
def test_both_compilers_build_without_a_warning(compiler: str, processor: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None or os.uname().machine != "x86_64":
        pytest.skip(f"no {compiler} for this processor")
    flags = [flag for flag in FLAGS if flag not in ("-w", "-march=native")]
    # GCC warns about the undefined operand of its intrinsics.
    flags += f"-march={processor} -Wall -Wextra -Werror -Wno-psabi -Wno-uninitialized".split()
    flags += ["-Wno-unknown-warning-option", "-Wno-maybe-uninitialized", "-Wno-pass-failed"]
    for source in SOURCES.glob("*.cpp"):
        command = [compiler, *flags, "-c", "-o", str(tmp_path / "out.o"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
