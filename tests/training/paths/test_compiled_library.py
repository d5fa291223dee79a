"""How the kernels are built, kept and loaded: by whom, from where, and what happens where that cannot be."""

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
    """Where the kernels shall lie, in an empty cache of the user's; nothing is loaded yet."""
    (tmp_path / "cache").mkdir(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library.load.cache_clear()
    yield tmp_path / "cache" / "normexp" / "kernels"
    library.load.cache_clear()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources that are built in no time."""
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
    def test_is_the_users_alone_and_holds_one_file_by_its_hash(self, cache: Path, tiny: Path) -> None:
        loaded = library.load()
        assert stat.S_IMODE(cache.stat().st_mode) == stat.S_IMODE(cache.parent.stat().st_mode) == 0o700
        (file,) = cache.iterdir()
        assert file.name.startswith("kernels-")
        assert loaded.functions._name == str(file)
        assert "march=native" in loaded.flags
        assert loaded.compiler

    def test_is_read_the_next_time_without_building(
        self, cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library.load()
        library.load.cache_clear()
        monkeypatch.setattr(library, "_built", lambda command: pytest.fail("built again"))
        library.load()

    @pytest.mark.parametrize("change", ["source", "flags", "processor", "compiler"])
    def test_has_another_file_for_anything_else(
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

    def test_a_damaged_file_is_built_again(self, cache: Path, tiny: Path) -> None:
        cache.mkdir(parents=True, mode=0o700)
        command = library._compiler()
        name = f"kernels-{library._key(command, library._version(command))}.so"
        (cache / name).write_bytes(b"\x7fELF cut")
        library.load()
        assert (cache / name).stat().st_size > 1000

    @pytest.mark.slow
    def test_first_starts_at_once_share_one_file(self, cache: Path) -> None:
        started = [subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        named = {process.communicate(timeout=300)[0].strip() for process in started}
        assert [process.returncode for process in started] == [0, 0, 0]
        (file,) = cache.iterdir()
        assert named == {str(file)}


@needs_compiler
class TestWithoutACache:
    """Nothing is loaded from where others can write, and nothing is left behind."""

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
    def test_none_on_path(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        with pytest.raises(UnavailableError, match="no C\\+\\+ compiler"):
            library.load()

    def test_the_one_that_cxx_names_with_its_options(
        self, cache: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = built_by(tmp_path / "my compiler", 'echo "$@" >> "$(dirname "$0")/log"; echo mine 1.0')
        monkeypatch.setenv("CXX", f"'{script}' -DMINE '-DTWO=a b'")
        with pytest.raises(UnavailableError, match="cannot be loaded"):  # it builds nothing
            library.load()
        lines = (tmp_path / "log").read_text().splitlines()
        assert len(lines) == 3
        assert all(line.startswith("-DMINE -DTWO=a b ") for line in lines)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("exit 1", "does not tell its version"),
            (
                '[ "$1" = --version ] && echo 1 && exit; echo "x.cpp:1: error: no such thing" >&2; exit 1',
                "no such thing",
            ),
            ('[ "$1" = --version ] && echo 1 && exit; exit 1', "no reason given"),
            ('[ "$1" = --version ] && echo 1 && exit; kill -9 $$', "failed"),
        ],
    )
    def test_one_that_fails(
        self, text: str, message: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CXX", built_by(tmp_path / "broken", text))
        with pytest.raises(UnavailableError, match=message):
            library.load()
        assert not cache.exists() or not list(cache.iterdir())

    @pytest.mark.parametrize("named", ["'", "/nonexistent/c++"])
    def test_a_name_that_is_none(self, named: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_without_a_compiler_it_is_the_tape(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "/nonexistent/c++")
        choice = paths.choose()
        assert choice.path is ExecutionPath.TAPE
        assert "/nonexistent/c++" in choice.why
        assert not choice.made_by

    @needs_compiler
    def test_where_kernels_disagree_it_is_the_tape(self, monkeypatch: pytest.MonkeyPatch) -> None:
        call = paths.CompiledProgram.__call__
        monkeypatch.setattr(paths.CompiledProgram, "__call__", lambda program, batch: 1.01 * call(program, batch))
        choice = paths.choose()
        assert choice.path is ExecutionPath.TAPE
        assert "disagree" in choice.why

    @needs_compiler
    def test_else_the_compiled_kernels(self) -> None:
        choice = paths.choose()
        assert choice.path is ExecutionPath.COMPILED
        assert choice.made_by.keys() == {"compiler", "compiler_flags"}

    @pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE])
    def test_what_the_environment_asks_for_is_not_tried(
        self, path: ExecutionPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, path)
        monkeypatch.setattr(paths, "load", lambda: pytest.fail("tried"))
        assert paths.choose().path is path

    def test_compiled_kernels_that_are_asked_for_and_lacking_are_an_error(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CXX", "/nonexistent/c++")
        monkeypatch.setenv(VARIABLE, "compiled")
        with pytest.raises(UserError, match="does not work here: no C\\+\\+ compiler"):
            paths.choose()

    def test_an_unknown_name_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VARIABLE, "fast")
        with pytest.raises(UserError, match="NORMEXP_PATH=fast: unknown path; write autograd, tape, compiled"):
            requested()

    def test_it_is_settled_for_a_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paths, "_fastest", lambda: pytest.fail("tried"))
        paths.settle(ExecutionPath.TAPE, "a reason")
        assert paths.choose() == paths.Choice(ExecutionPath.TAPE, "a reason")
