"""The compiled kernels: built once by the C++ compiler of this machine, and kept in the user's cache folder.

A library is named by a hash of what made it: sources, flags, compiler and processor. It is loaded only from a folder
that belongs to this user alone, so that nobody else can put one there. Where there is no such folder, it is built for
this process in a temporary one, which is removed as soon as the library is loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "kernels"
FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-fPIC", "-w",
)  # fmt: skip
COMPILER = "c++"
COMPILER_VARIABLE = "CXX"
BUILD_SECONDS = 120
KEPT = 8
"""Libraries that stay in the cache folder: a new source, compiler or processor makes a new one."""
PRIVATE = 0o700
CPUINFO = Path("/proc/cpuinfo")
DESCRIBING = ("model name", "flags", "Features", "CPU implementer", "CPU part")
"""Lines of cpuinfo that say what code a processor runs."""


class UnavailableError(Exception):
    """There are no compiled kernels here; the message says why."""


@dataclass(frozen=True, slots=True)
class Library:
    """The loaded kernels; `compiler` is the first line of its version, `flags` are those of the build."""

    functions: ctypes.CDLL
    compiler: str
    flags: str

    def address(self, kernel: str) -> int:
        """Where a kernel begins."""
        address = ctypes.cast(getattr(self.functions, kernel), ctypes.c_void_p).value
        assert address is not None
        return address


@functools.cache
def load() -> Library:
    """The kernels, built unless the cache has them. Raises UnavailableError."""
    command = _compiler()
    version = _version(command)
    name = f"kernels-{_key(command, version)}.so"
    folder = _cache_folder()
    try:
        functions = _load_private(command, name) if folder is None else _load_cached(command, folder / name)
    except OSError as fault:
        raise UnavailableError(f"the kernels cannot be loaded: {fault}") from fault
    return Library(_typed(functions), version.splitlines()[0], " ".join(FLAGS))


def _compiler() -> list[str]:
    named = os.environ.get(COMPILER_VARIABLE, "").strip() or COMPILER
    try:
        command, *options = shlex.split(named)
    except ValueError as fault:
        raise UnavailableError(f"{COMPILER_VARIABLE}={named} is not a command: {fault}") from fault
    path = shutil.which(command)
    if path is None:
        raise UnavailableError(
            f"no C++ compiler: there is no {command} on PATH; install one or name it in {COMPILER_VARIABLE}"
        )
    return [path, *options]


def _version(command: list[str]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=BUILD_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as fault:
        raise UnavailableError(f"the compiler {command[0]} does not run: {fault}") from fault
    if done.returncode or not done.stdout.strip():
        raise UnavailableError(f"the compiler {command[0]} does not tell its version")
    return done.stdout.strip()


def _key(command: list[str], version: str) -> str:
    """The hash of everything that the library depends on."""
    texts = [path.read_text("utf-8") for path in sorted(SOURCES.iterdir()) if path.suffix in (".cpp", ".h")]
    parts = [*texts, *FLAGS, os.path.realpath(command[0]), *command[1:], version, _processor()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _processor() -> str:
    """What this processor is and can do: code for another one may not run here."""
    try:
        lines = CPUINFO.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    found = dict.fromkeys(line for line in lines if line.startswith(DESCRIBING))
    return "\n".join([platform.machine(), platform.system(), platform.processor(), *found])


def _cache_folder() -> Path | None:
    """The folder for kernels in the user's cache, made if need be; None unless it can be written by this user alone."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # A relative path in XDG_CACHE_HOME is to be ignored, as the specification says.
        base = Path(root) if os.path.isabs(root) else Path.home() / ".cache"
        folder = base / "normexp" / "kernels"
        if not base.parent.is_dir():
            return None  # a home that does not exist is not made
        base.mkdir(mode=PRIVATE, exist_ok=True)
        for part in (folder.parent, folder):
            with contextlib.suppress(FileExistsError):
                part.mkdir(mode=PRIVATE)
        return folder if _is_private(folder) and os.access(folder, os.W_OK | os.X_OK) else None
    except (OSError, RuntimeError):  # a read-only place; no home at all
        return None


def _is_private(folder: Path) -> bool:
    """Whether nobody else can put a file there: a folder, no symbolic link, this user's, closed to others."""
    found = folder.lstat()
    mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return stat.S_ISDIR(found.st_mode) and mine and not found.st_mode & 0o077


def _load_cached(command: list[str], path: Path) -> ctypes.CDLL:
    if path.is_file():
        with contextlib.suppress(OSError):  # a damaged file is replaced
            return ctypes.CDLL(str(path))
    with _built(command) as built:
        try:
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as copy:
                copy.write(built.read_bytes())
            os.replace(copy.name, path)  # whole or not at all: several processes may do the same at once
            _remove_old(path)
        except OSError:  # a full disk: load what was built
            with contextlib.suppress(OSError, UnboundLocalError):
                os.unlink(copy.name)
            return ctypes.CDLL(str(built))
    return ctypes.CDLL(str(path))


def _remove_old(newest: Path) -> None:
    """Remove all but the KEPT latest libraries. A process that has loaded one keeps it; another builds it again."""
    with contextlib.suppress(OSError):  # another process removes the same files
        others = [path for path in newest.parent.glob("kernels-*.so") if path != newest]
        for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT - 1 :]:
            path.unlink()


def _load_private(command: list[str], name: str) -> ctypes.CDLL:
    with _built(command) as built:
        return ctypes.CDLL(str(built))


@contextlib.contextmanager
def _built(command: list[str]) -> Iterator[Path]:
    """The library in a temporary folder, which is this user's alone. Raises UnavailableError."""
    with tempfile.TemporaryDirectory(prefix="normexp-") as folder:
        objects = {source: Path(folder) / f"{source.stem}.o" for source in sorted(SOURCES.glob("*.cpp"))}
        library = Path(folder) / "kernels.so"
        _run([[*command, *FLAGS, "-c", "-o", str(target), str(source)] for source, target in objects.items()])
        _run([[*command, "-shared", "-o", str(library), *map(str, objects.values()), "-lm"]])
        yield library


def _run(commands: list[list[str]]) -> None:
    """All commands at once, to their ends. Raises UnavailableError with what the first failing one said."""
    started: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
            )
        for process in started:
            complaint = process.communicate(timeout=BUILD_SECONDS)[1].strip()
            if process.returncode:
                first = next(
                    (line for line in complaint.splitlines() if "error" in line), complaint[:200] or "no reason given"
                )
                raise UnavailableError(f"the compiler {commands[0][0]} failed: {first.strip()}")
    except (OSError, subprocess.SubprocessError) as fault:
        raise UnavailableError(f"the compiler {commands[0][0]} failed: {fault}") from fault
    finally:
        for process in started:
            if process.stderr is not None and not process.stderr.closed:
                process.kill()
                process.communicate()


def _typed(functions: ctypes.CDLL) -> ctypes.CDLL:
    """The functions that are called by themselves, with the types of their arguments."""
    pointer, count, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    try:
        functions.run.argtypes, functions.run.restype = [pointer, count], None
        functions.lanes.argtypes, functions.lanes.restype = [], count
        functions.sum_of_squares.argtypes, functions.sum_of_squares.restype = [pointer, count], ctypes.c_double
        for name in ("adam_coupled", "adam_decoupled"):
            function = getattr(functions, name)
            function.argtypes, function.restype = [pointer] * 4 + [count] + [number] * 7, count
        functions.descend.argtypes, functions.descend.restype = [pointer, pointer, count, number, number], count
    except AttributeError as fault:
        raise UnavailableError(f"the library lacks a function: {fault}") from fault
    return functions
