"""Damaged and replaced files of results/ are named, give no traceback, and cost no undamaged run."""

from __future__ import annotations

import csv
import itertools
import os
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from commands import program
from sweeps import ONE, TWO, arguments, leftovers, write_configs

SEED = 2026
TABLES = ("points.csv", "runs.csv", "timings.csv", "summary.csv", "summary.md")
RUN_FILES = ("run.json", "curve.csv", "layers.csv", "death.csv", "log.txt", "weights.safetensors")
DERIVED = (*TABLES, "figures/curves.png", "figures/curves.svg", "figures/curves.csv", "report.html", ".figures")
OURS = ("sweep.yaml", "manifest.json", "runs.tar.xz", ".lock", ".driver.json")
KINDS = (*OURS, *RUN_FILES, *DERIVED, "figures", "runs", "RUN")


def a_folder(path: Path) -> None:
    _remove(path)
    (path / "mine").mkdir(parents=True)


def a_dangling_link(path: Path) -> None:
    _remove(path)
    path.symlink_to(path.parent / "nowhere" / "at all")


def a_loop(path: Path) -> None:
    _remove(path)
    path.symlink_to(path)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def written(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        before = path.read_bytes() if path.is_file() else b""
        _remove(path)
        path.write_bytes(change(before))

    return damage


def last_line_lost(content: bytes) -> bytes:
    return content[: content.rstrip(b"\n").rfind(b"\n") + 1]


DAMAGES: Mapping[str, Callable[[Path], None]] = {
    "empty": written(lambda content: b""),
    "half": written(lambda content: content[: len(content) // 2]),
    "last byte": written(lambda content: content[:-1]),
    "last bytes": written(lambda content: content[:-2]),
    "last line": written(last_line_lost),
    "random": written(lambda content: random.Random(SEED).randbytes(len(content) or 99)),
    "zeros": written(lambda content: bytes(len(content) or 99)),
    "not UTF-8": written(lambda content: b"\xff\xfe" + content),
    "not UTF-8 inside": written(lambda content: content[: len(content) // 2] + b"\xe9" + content[len(content) // 2 :]),
    "a JSON list": written(lambda content: b'[{"schema": 1}, null]\n'),
    "a JSON number": written(lambda content: b"1e999\n"),
    "another JSON": written(lambda content: b'{"schema": 1, "run_id": 5, "runs": [], "points": {}}\n'),
    "a folder": a_folder,
    "a dangling link": a_dangling_link,
    "a loop of links": a_loop,
    "gone": _remove,
}


def read_all(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows(folder: Path) -> dict[str, str]:
    with (folder / "runs.csv").open() as file:
        return {row["run_id"]: row["status"] for row in csv.DictReader(file)}


def check(kind: str, damage: str, folder: Path) -> None:
    """Run every command on a sweep with a damaged file, then the sweep itself, which repairs it."""
    two = folder / "results" / TWO
    ids = sorted(os.listdir(two / "runs"))
    bad = next(run_id for run_id in ids if (two / "runs" / run_id / "death.csv").exists())
    good = next(run_id for run_id in ids if not (two / "runs" / run_id / "death.csv").exists())
    path = two / kind if kind not in (*RUN_FILES, "RUN") else two / "runs" / bad / kind.replace("RUN", "")
    DAMAGES[damage](path)
    context = f"{kind}: {damage}"
    intact = {name: text for name, text in read_all(two / "runs").items() if bad not in name and kind != "runs"}
    for name, *given in reading(kind in DERIVED, folder, bad, good):
        ended = program(name, *given, cwd=folder)
        assert ended.code in (0, 1, 2), (context, name)
        if ended.code == 2:
            assert names(ended.err, path, bad, good), (context, name, ended.err)
        elif ended.code == 1 and name == "pack":  # what it cannot read is left out, and named in a warning
            warned = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
            assert any(names(line, path, bad, good) for line in warned), (context, ended.err)
        elif ended.code == 1:
            assert name == "repro", (context, name, ended)
            assert "first difference at step" in ended.out, (context, ended)
    ended = program(*arguments(folder, TWO), cwd=folder)
    if ended.code:
        assert str(path) in ended.err, (context, ended.err)
        assert "remove" in ended.err or "replace" in ended.err, (context, ended.err)
        assert not ended.out, (context, "before the first run")
        _remove(path)
        ended = program(*arguments(folder, TWO), cwd=folder)
    assert ended.code == 0, (context, ended)
    assert leftovers(folder) == [], context
    assert rows(two) == dict.fromkeys(rows(two), "done"), context
    assert len(rows(two)) == 4, context
    for name, text in intact.items():
        assert (two / "runs" / name).read_bytes() == text, (context, name)


def reading(derived: bool, folder: Path, bad: str, good: str) -> list[tuple[str, ...]]:
    """Return the commands that read a sweep. Few of them read `derived` files."""
    two, out = str(folder / "results" / TWO), ("--out", str(folder / "results"))
    few = [("list", *out), ("report", two), ("explain", bad, *out)]
    more = [
        ("explain", good, *out),
        ("repro", bad, *out),
        ("repro", good, *out),
        ("convert", bad, str(folder / "rms.safetensors"), "--to", "rms", "--force", *out),
        ("pack", two),
        ("unpack", two),
        ("sweep", str(folder / "two.yaml"), "--dry-run", "--save-weights", *out),
    ]
    return few if derived else few + more


def names(text: str, path: Path, *ids: str) -> bool:
    return str(path) in text or str(path.parent) in text or any(run_id in text for run_id in ids)


@pytest.mark.slow
def test_a_damaged_figure_is_drawn_again(tmp_path: Path) -> None:
    write_configs(tmp_path)
    assert program(*arguments(tmp_path, ONE), cwd=tmp_path, figures=True).code == 0
    before = read_all(tmp_path / "results" / ONE)
    drawn = sorted(name for name in before if name.startswith("figures/") or name in ("report.html", ".figures"))
    assert len(drawn) > 4
    for name, damage in zip(drawn, itertools.cycle(["half", "zeros", "not UTF-8", "gone"]), strict=False):
        DAMAGES[damage](tmp_path / "results" / ONE / name)
    assert program(*arguments(tmp_path, ONE), cwd=tmp_path, figures=True).code == 0
    after = read_all(tmp_path / "results" / ONE)
    assert {name: after.get(name) for name in drawn} == {name: before[name] for name in drawn}
    for name in drawn:
        DAMAGES["zeros"](tmp_path / "results" / ONE / name)
        assert program(*arguments(tmp_path, ONE), cwd=tmp_path, figures=True).code == 0
        assert (tmp_path / "results" / ONE / name).read_bytes() == before[name], name
        if name == "figures/curves.png":
            break


def copied(undisturbed: Path, folder: Path) -> Path:
    shutil.copytree(undisturbed, folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("manifest.json", "half"), ("curve.csv", "last bytes")],
)
def test_some_damage_to_some_files(kind: str, damage: str, undisturbed: Path, tmp_path: Path) -> None:
    check(kind, damage, copied(undisturbed, tmp_path / "folder"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_damage_to_any_file(kind: str, undisturbed: Path, tmp_path: Path) -> None:
    """Every kind of damage to the files that cannot be rebuilt, every fourth kind to the others."""
    some = list(DAMAGES)[KINDS.index(kind) % 4 :: 4]
    for damage in DAMAGES if kind in ("manifest.json", "run.json", "curve.csv") else some:
        folder = copied(undisturbed, tmp_path / "folder")
        check(kind, damage, folder)
        shutil.rmtree(folder)
