"""Which path training steps take on this machine, and why."""

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
"""Why a path is the fastest that works."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A path, the reason for it, and what its numbers depend on beside torch: the compiler and its flags."""

    path: ExecutionPath
    why: str
    made_by: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


_settled: Choice | None = None


def settle(path: ExecutionPath, why: str) -> None:
    """Have `choose` take a path in this process, and in those that are forked from it, without trying the others."""
    global _settled
    _settled = _of(path, why)


def choose() -> Choice:
    """The path that NORMEXP_PATH names, else the fastest one that works here. Raises UserError where that cannot be."""
    wanted = requested()
    return fastest() if wanted is None else chosen(wanted, f"{VARIABLE}={wanted}")


def fastest() -> Choice:
    """The fastest path that works here, whatever the environment asks for."""
    return _settled or _fastest()


def chosen(path: ExecutionPath, why: str = "asked for") -> Choice:
    """A path that is asked for. Raises UserError where it does not work here."""
    if path is not ExecutionPath.COMPILED:
        return Choice(path, why)
    found = fastest()
    if found.path is not path:
        raise UserError(f"the path {path} was asked for ({why}), and does not work here: {found.why}")
    return found


@functools.cache
def _fastest() -> Choice:
    """Try all paths."""
    slower = without_kernels()
    if slower.path is ExecutionPath.AUTOGRAD:
        return slower
    try:
        load()
    except UnavailableError as fault:
        return Choice(ExecutionPath.TAPE, str(fault))
    return _of(ExecutionPath.COMPILED, REASONS[ExecutionPath.COMPILED]) if compiled_works() else slower


def without_kernels() -> Choice:
    """The tape, unless it does not work here."""
    path = ExecutionPath.TAPE if works() else ExecutionPath.AUTOGRAD
    return Choice(path, REASONS[path])


@functools.cache
def compiled_works() -> bool:
    """Whether the kernels agree with autograd on small networks that between them have every row."""
    return all(agrees(run, CompiledProgram) for run in COMPILED_CHECKED)


def _of(path: ExecutionPath, why: str) -> Choice:
    if path is not ExecutionPath.COMPILED:
        return Choice(path, why)
    library = load()
    made_by = {"compiler": library.compiler, "compiler_flags": library.flags}
    return Choice(path, why, MappingProxyType(made_by))
