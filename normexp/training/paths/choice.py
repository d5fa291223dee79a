"""Select the execution path of training steps on this machine, and give the reason."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from normexp.errors import UserError
from normexp.records.execution_path import VARIABLE, ExecutionPath, requested
from normexp.training.paths.compiled.library import UnavailableError, load
from normexp.training.paths.compiled.program import COMPILED_CHECKED, CompiledProgram
from normexp.training.paths.program import agrees, works

REASONS = MappingProxyType(
    {
        ExecutionPath.AUTOGRAD: "this version of torch lacks operators of the tape, or they disagree with autograd",
        ExecutionPath.TAPE: "the compiled kernels disagree with autograd on a small network",
        ExecutionPath.COMPILED: "the compiled kernels agree with autograd on small networks",
    }
)
"""Why a path is the fastest one that works."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A path, the reason for it, and what its results depend on besides torch: the compiler and its flags."""

    path: ExecutionPath
    why: str
    made_by: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


_settled: Choice | None = None


def settle(path: ExecutionPath, why: str) -> None:
    """Make `choose` return a path, in this process and its forks, without testing the others."""
    global _settled
    _settled = _of(path, why)


def choose() -> Choice:
    """Return the path set in NORMEXP_PATH, or the fastest one that works. Raises UserError if it does not work."""
    wanted = requested()
    return fastest() if wanted is None else chosen(wanted, f"{VARIABLE}={wanted}")


def fastest() -> Choice:
    """Return the fastest path that works here, whatever the environment says."""
    return _settled or _fastest()


def chosen(path: ExecutionPath, why: str = "requested") -> Choice:
    """Return a requested path. Raises UserError if it does not work here."""
    if path is not ExecutionPath.COMPILED:
        return Choice(path, why)
    best = fastest()
    if best.path is not path:
        raise UserError(f"the path {path} ({why}) does not work here: {best.why}")
    return best


@functools.cache
def _fastest() -> Choice:
    """Test all paths, from slow to fast."""
    slower = without_kernels()
    if slower.path is ExecutionPath.AUTOGRAD:
        return slower
    try:
        load()
    except UnavailableError as fault:
        return Choice(ExecutionPath.TAPE, str(fault))
    return _of(ExecutionPath.COMPILED, REASONS[ExecutionPath.COMPILED]) if compiled_works() else slower


def without_kernels() -> Choice:
    """Return the tape if it works here, else autograd."""
    path = ExecutionPath.TAPE if works() else ExecutionPath.AUTOGRAD
    return Choice(path, REASONS[path])


@functools.cache
def compiled_works() -> bool:
    """Return whether the kernels agree with autograd on small networks that cover all of them."""
    return all(agrees(run, CompiledProgram) for run in COMPILED_CHECKED)


def _of(path: ExecutionPath, why: str) -> Choice:
    if path is not ExecutionPath.COMPILED:
        return Choice(path, why)
    library = load()
    made_by = {"compiler": library.compiler, "compiler_flags": library.flags}
    return Choice(path, why, MappingProxyType(made_by))
