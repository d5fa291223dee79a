"""Building, caching and loading the kernels, and the fallback if that fails."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import needs_compiler

from normexp.errors import UserError
from normexp.records.execution_path import VARIABLE, ExecutionPath, requested
from normexp.training.paths import choice as paths
from normexp.training.paths.compiled import library
from normexp.training.paths.compiled.library import UnavailableError

LOAD = "from normexp.training.paths.compiled.library import load; print(load().functions._name)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of the kernels in an empty user cache, with nothing loaded."""
    (tmp_path / "cache").mkdir(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library.load.cache_clear()
    yield tmp_path / "cache" / "normexp" / "kernels"
    library.load.cache_clear()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return sources that compile quickly."""
    folder = tmp_path / "sources"
    folder.mkdir()
    names = "run lanes sum_of_squares adam_coupled adam_decoupled descend"
    (folder / "all.cpp").write_text(
        "".join(f'extern "C" __attribute__((visibility("default"))) void {name}() {{}}\n' for name in names.split())
    )
    monkeypatch.setattr(library, "SOURCES", folder)
    return folder


def built_by(script: Path, text: str) -> str:
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return str(script)


@needs_compiler
class TestTheCache:
    def test_is_private_and_holds_one_file_named_by_hash(self, cache: Path, tiny: Path) -> None:
        loaded = library.load()
        assert stat.S_IMODE(cache.stat().st_mode) == stat.S_IMODE(cache.parent.stat().st_mode) == 0o700
        (file,) = cache.iterdir()
        assert file.name.startswith("kernels-")
        assert loaded.functions._name == str(file)
        assert "march=native" in loaded.flags
        assert loaded.compiler

    def test_is_reused_without_building(self, cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library.load()
        library.load.cache_clear()
        monkeypatch.setattr(library, "_built", lambda command: pytest.fail("built again"))
        library.load()

    @pytest.mark.parametrize("change", ["source", "flags", "processor", "compiler"])
    def test_has_another_file_if_anything_changes(
        self, change: str, cache: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library.load()
        if change == "source":
            (tiny / "more.h").write_text("// new\n")
        elif change == "flags":
            monkeypatch.setattr(library, "FLAGS", (*library.FLAGS, "-O2"))
        elif change == "processor":
            monkeypatch.setattr(library, "_processor", lambda: "another one")
        else:
            compiler = shutil.which(os.environ.get("CXX", "c++"))
            monkeypatch.setenv("CXX", built_by(tmp_path / "other", f'exec {compiler} "$@"'))
        library.load.cache_clear()
        library.load()
        assert len(list(cache.iterdir())) == 2

    def test_a_damaged_file_is_rebuilt(self, cache: Path, tiny: Path) -> None:
        cache.mkdir(parents=True, mode=0o700)
        command = library._compiler()
        name = f"kernels-{library._key(command, library._version(command))}.so"
        (cache / name).write_bytes(b"\x7fELF cut")
        library.load()
        assert (cache / name).stat().st_size > 1000

    def test_only_the_latest_libraries_are_kept(self, cache: Path, tiny: Path) -> None:
        cache.mkdir(parents=True, mode=0o700)
        for age in range(2 * library.KEPT):
            old = cache / f"kernels-{age}.so"
            old.touch()
            os.utime(old, (1e9 - age, 1e9 - age))
        (cache / "notes.txt").touch()
        loaded = Path(library.load().functions._name)
        kept = {f"kernels-{age}.so" for age in range(library.KEPT - 1)}
        assert {path.name for path in cache.iterdir()} == {loaded.name, "notes.txt", *kept}

    @pytest.mark.slow
    def test_concurrent_first_starts_share_one_file(self, cache: Path) -> None:
        started = [subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        paths_loaded = {process.communicate(timeout=300)[0].strip() for process in started}
        assert [process.returncode for process in started] == [0, 0, 0]
        (file,) = cache.iterdir()
        assert paths_loaded == {str(file)}


@needs_compiler
class TestWithoutACache:
    """Nothing is loaded from folders that others can write to, and nothing is left behind."""

    def loaded_from(self) -> str:
        return str(library.load().functions._name)

    @pytest.mark.parametrize("mode", [0o755, 0o770, 0o707, 0o777])
    def test_a_folder_that_others_can_enter_is_not_used(self, mode: int, cache: Path, tiny: Path) -> None:
        cache.mkdir(parents=True)
        cache.chmod(mode)
        assert not self.loaded_from().startswith(str(cache))
        assert not list(cache.iterdir())

    def test_a_folder_of_another_user_is_not_used(
        self, cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache.mkdir(parents=True, mode=0o700)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not self.loaded_from().startswith(str(cache))

    def test_a_symbolic_link_is_not_followed(self, cache: Path, tiny: Path, tmp_path: Path) -> None:
        (tmp_path / "theirs").mkdir(mode=0o700)
        cache.parent.mkdir(parents=True)
        cache.symlink_to(tmp_path / "theirs")
        assert not self.loaded_from().startswith(str(cache))
        assert not list((tmp_path / "theirs").iterdir())

    @pytest.mark.parametrize("home", ["missing", "a file", "relative"])
    def test_no_home(self, home: str, cache: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        if home == "a file":
            (tmp_path / "home").write_text("")
        if home == "relative":
            monkeypatch.chdir(tmp_path)
            monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
        before = set(tmp_path.iterdir())
        assert not Path(self.loaded_from()).exists()
        assert set(tmp_path.iterdir()) == before

    def test_a_cache_that_cannot_be_written(self, cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(Path, "mkdir", refused)
        assert not Path(self.loaded_from()).exists()

    def test_a_full_disk(self, cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        assert not Path(self.loaded_from()).exists()
        assert not list(cache.iterdir())


class TestTheCompiler:
    def test_no_compiler_on_path(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        with pytest.raises(UnavailableError, match=r"C\+\+ compiler"):
            library.load()

    def test_cxx_may_have_options(
        self, cache: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = built_by(tmp_path / "my compiler", 'echo "$@" >> "$(dirname "$0")/log"; echo mine 1.0')
        monkeypatch.setenv("CXX", f"'{script}' -DMINE '-DTWO=a b'")
        with pytest.raises(UnavailableError):  # the script builds nothing
            library.load()
        lines = (tmp_path / "log").read_text().splitlines()
        assert len(lines) == 3
        assert all(line.startswith("-DMINE -DTWO=a b ") for line in lines)

    @pytest.mark.parametrize(
        ("text", "fact"),
        [
            ("exit 1", "version"),
            (
                '[ "$1" = --version ] && echo 1 && exit; echo "x.cpp:1: error: no such thing" >&2; exit 1',
                "no such thing",
            ),
            ('[ "$1" = --version ] && echo 1 && exit; exit 1', "broken"),
            ('[ "$1" = --version ] && echo 1 && exit; kill -9 $$', "broken"),
        ],
    )
    def test_a_compiler_that_fails(
        self, text: str, fact: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CXX", built_by(tmp_path / "broken", text))
        with pytest.raises(UnavailableError, match=fact):
            library.load()
        assert not cache.exists() or not list(cache.iterdir())

    @pytest.mark.parametrize("named", ["'", "/nonexistent/c++"])
    def test_an_invalid_cxx(self, named: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", named)
        with pytest.raises(UnavailableError):
            library.load()


class TestTheChoice:
    @pytest.fixture(autouse=True)
    def _fresh(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(paths, "_settled", None)
        monkeypatch.delenv(VARIABLE, raising=False)
        tried = (paths._fastest, paths.compiled_works)
        for function in tried:
            function.cache_clear()
        yield
        for function in tried:
            function.cache_clear()

    def test_without_a_compiler_the_tape_is_used(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "/nonexistent/c++")
        choice = paths.choose()
        assert choice.path is ExecutionPath.TAPE
        assert "/nonexistent/c++" in choice.why
        assert not choice.made_by

    @needs_compiler
    def test_if_kernels_disagree_the_tape_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        call = paths.CompiledProgram.__call__
        monkeypatch.setattr(paths.CompiledProgram, "__call__", lambda program, batch: 1.01 * call(program, batch))
        choice = paths.choose()
        assert choice.path is ExecutionPath.TAPE
        assert choice.why == paths.REASONS[ExecutionPath.TAPE]

    @needs_compiler
    def test_otherwise_the_compiled_kernels_are_used(self) -> None:
        choice = paths.choose()
        assert choice.path is ExecutionPath.COMPILED
        assert choice.made_by.keys() == {"compiler", "compiler_flags"}

    @pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE])
    def test_a_path_from_the_environment_is_not_tested(
        self, path: ExecutionPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, path)
        monkeypatch.setattr(paths, "load", lambda: pytest.fail("tried"))
        assert paths.choose().path is path

    def test_requested_kernels_that_do_not_work_are_an_error(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CXX", "/nonexistent/c++")
        monkeypatch.setenv(VARIABLE, "compiled")
        with pytest.raises(UserError, match=r"path compiled .*NORMEXP_PATH=compiled.*C\+\+ compiler"):
            paths.choose()

    def test_an_unknown_path_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VARIABLE, "fast")
        with pytest.raises(UserError, match=r"NORMEXP_PATH=fast: .*autograd, tape, compiled"):
            requested()

    def test_the_choice_can_be_set_for_a_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paths, "_fastest", lambda: pytest.fail("tried"))
        paths.settle(ExecutionPath.TAPE, "a reason")
        assert paths.choose() == paths.Choice(ExecutionPath.TAPE, "a reason")
