"""What the text of a config means. Errors are tested in test_config_faults."""

from pathlib import Path
from typing import Any

import pytest

from normexp.config import sweep_file
from normexp.config.sweep_file import Sweep
from normexp.errors import UserError


def parsed(text: str, *overrides: str, **rest: Any) -> Sweep:
    return sweep_file.parse(text, origin="c.yaml", stem="c", overrides=overrides, **rest)


def complaints(text: str, *overrides: str, **rest: Any) -> tuple[str, ...]:
    with pytest.raises(UserError) as caught:
        parsed(text, *overrides, **rest)
    return tuple(caught.value.complaints)


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"base: {depth: 1}\nname: \xff")
    for path, fact in [
        (tmp_path, "folder"),
        (tmp_path / "none.yaml", "none.yaml: no such file"),
        (latin / "x.yaml", "x.yaml"),
        (Path("a\0b"), "null byte"),
        (latin, "latin.yaml:2: "),
    ]:
        with pytest.raises(UserError, match=fact) as caught:
            sweep_file.load(path)
        assert len(caught.value.complaints) == 1


def test_a_file_with_a_byte_order_mark_and_no_name(tmp_path: Path) -> None:
    path = tmp_path / "scan é.yaml"
    path.write_bytes(b"\xef\xbb\xbfbase: {depth: 1}\r\ntitle: \xc3\xa9\r\n")
    sweep = sweep_file.load(path)
    assert (sweep.name, sweep.title, sweep.folder) == ("scan é", "é", "scan é")
    hidden = tmp_path / ".hidden.yaml"
    hidden.write_text("base: {depth: 1}", encoding="utf-8")
    with pytest.raises(UserError, match="a dot"):
        sweep_file.load(hidden)


def test_numbers_are_read_in_the_type_of_their_key() -> None:
    sweep = parsed("name: 1e3\ngrid: {lr: [1e-3, 3.0e-4, 1.e-2, !!float 1e-4], warmup: [1e1]}\nbase: {steps: 1.0e2}")
    (group,) = sweep.groups
    assert list(group.grid["lr"]) == [1e-3, 3e-4, 1e-2, 1e-4]
    assert [repr(value) for value in (*group.grid["warmup"], group.base["steps"])] == ["10", "100"]
    assert (sweep.name, sweep.title) == ("1e3", "1e3")


def test_repeated_values_draw_a_warning_in_a_grid_but_not_in_a_zip() -> None:
    sweep = parsed(
        'grid:\n  norm: [none, None, null, ~, "none"]\n  lr: [1e-3, 1E-3]\nzip: {seed: [0, 0], depth: [1, 2]}'
    )
    assert sweep.warnings == (
        "c.yaml:2: grid.norm: none and None are both none",
        "c.yaml:2: grid.norm: none and null are both none",
        "c.yaml:2: grid.norm: none and ~ are both none",
        "c.yaml:2: grid.norm: none is listed twice",
        "c.yaml:3: grid.lr: 1e-3 and 1E-3 are both 0.001",
    )


def test_aliases_are_expanded_but_bounded() -> None:
    (group,) = parsed("grid: {lr: &lr [1e-3, 1e-2]}\nexclude: []\nzip: [{eps: *lr}]").groups
    assert list(group.zips[0]["eps"]) == [1e-3, 1e-2]
    assert complaints("grid: {lr: &a [*a]}")
    entry = f"&e {{grid: {{lr: [{', '.join(['1'] * 1000)}]}}}}"
    (complaint,) = complaints(f"sweeps: [{entry}, {', '.join(['*e'] * 1000)}]")
    assert "200000" in complaint


def test_a_key_of_an_entry_overrides_the_top_level_base() -> None:
    first, second = parsed("base: {lr: 1, depth: 2}\nsweeps: [{grid: {lr: [2, 3]}}, {label: 12, base: {lr: 4}}]").groups
    assert (first.base, list(first.grid["lr"])) == ({"depth": 2}, [2.0, 3.0])
    assert (second.base, second.label) == ({"lr": 4.0, "depth": 2}, "12")


def test_scale_applies_to_all_numbers_of_updates() -> None:
    text = """
base: {steps: 3000}
grid: {warmup: [0, 4, 200], lr: [1e-3]}
exclude: {warmup: 4}
published: [{where: {warmup: 200}, text: 2.0, source: s}]
"""
    sweep = parsed(text, scale=0.1)
    (group,) = sweep.groups
    assert (group.base, list(group.grid["warmup"])) == ({"steps": 300, "eval_every": 50}, [0, 0, 20])
    assert (group.exclude, sweep.published[0].where) == (({"warmup": 0},), {"warmup": 20})
    assert sweep.folder == "c+scale=0.1"
    (warning,) = sweep.warnings
    assert warning.startswith("exclude warmup: 4: ")
    assert "warmup: 0" in warning
    assert parsed(text, scale=0.5).warnings == ()
    (tiny,) = parsed(text, scale=1e-9).groups
    assert (tiny.base, list(tiny.grid["warmup"])) == ({"steps": 1, "eval_every": 1}, [0, 0, 0])
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        assert complaints(text, scale=scale)[0].startswith("scale ")
