"""Errors in configs: all are reported at once, each with line and key."""

import json
import subprocess
import sys

import pytest

from normexp.config import sweep_file
from normexp.errors import UserError

FAULTS: list[tuple[str, list[str]]] = [
    # not a config
    ("grid:\n\tdepth: [4]\n", ["c.yaml:2:1: | tab"]),
    ("", ["empty"]),
    ("# todo\n", ["empty"]),
    ("~", ["empty"]),
    ("{}", ["empty"]),
    ("- depth: 4\n", ["c.yaml:1: | a list"]),
    ("hello", ["c.yaml:1: | a single value"]),
    ("---\ngrid: {depth: 1}\n---\ngrid: {depth: 2}\n", ["c.yaml:4: | 2 documents"]),
    ("base: {lr: 1e-3", ["c.yaml:1:16: not YAML"]),
    ('"\\U00110000": 1', ["not YAML"]),
    ("%YAML 1." + "9" * 5000 + "\n---\na: 1", ["not YAML"]),
    ("base: {depth: \x00}", ["not YAML"]),
    ("[" * 2000, ["nested"]),
    ("# " + "x" * 300_000, ["262144"]),
    # keys
    ("grid: {depth: [4]}\nbase: {steps: 50}\ngrid: {lr: [1e-3]}\n", ["c.yaml:3: grid: | line 1"]),
    ("base:\n  lr: 1\n  lr: 1\n", ["c.yaml:3: base.lr: | line 2"]),
    (
        "grid: {deph: [4, 8], norm: [rmsnorm], lr: [1e-3]}\nlr: [1e-3]\nbase: {warm-up: 10}\ntrain: {steps: 5}\n",
        [
            "c.yaml:1: grid.deph: | did you mean depth?",
            "c.yaml:1: grid.norm, value 1 of 1: 'rmsnorm' | ln, rms, | , none; did you mean rms?",
            "c.yaml:2: lr: | under base or grid",
            "c.yaml:3: base.warm-up: | did you mean warmup?",
            "c.yaml:4: train: | name, title, base, grid",
        ],
    ),
    ("base: {zip: [{lr: 1}]}", ["c.yaml:1: base.zip: | beside base"]),
    ("base: {<<: {depth: 1}}", ["c.yaml:1: base: | <<"]),
    ("base: {? [a] : 1}", ["c.yaml:1: base: | not a list"]),
    ("base: [1]", ["c.yaml:1: base: | a list"]),
    ("base: {depth: 1}\ngrid: {depth: [1]}", ["c.yaml:2: grid.depth: | base (c.yaml:1)"]),
    ("zip: [{lr: 1}, {lr: 2}]", ["c.yaml:1: zip.lr: | zip (c.yaml:1)"]),
    ("zip: [{depth: [4, 16]}]\ngrid: {depth: [1]}", ["c.yaml:1: zip.depth: | grid (c.yaml:2)"]),
    ("zip: [{depth: [4, 16, 64], lr: [1e-3, 3e-4]}]", ["c.yaml:1: zip: | depth has 3, lr has 2"]),
    # values
    (
        'grid:\n  depth: [4.0, 4.5, "8", true, 0, -2, [16]]\n',
        [
            "c.yaml:2: grid.depth, value 2 of 7: 4.5",
            "c.yaml:2: grid.depth, value 3 of 7: '8' | write 8 without quotes",
            "c.yaml:2: grid.depth, value 4 of 7: 'true'",
            "c.yaml:2: grid.depth, value 6 of 7: -2 | at least 0",
            "c.yaml:2: grid.depth, value 7 of 7: | not a list",
        ],
    ),
    ('grid: {depth: "4, 8"}', ["grid.depth: '4, 8' | at least 0 and at most 10000, without quotes"]),
    ("grid:\n  depth: 4, 8", ["c.yaml:2: grid.depth: '4, 8' | write [4, 8]"]),
    ("grid: {depth: []}", ["c.yaml:1: grid.depth: | at least one"]),
    ("base: {lr: }", ["c.yaml:1: base.lr: | a number above 0"]),
    ("base: {lr: [1e-3]}", ["c.yaml:1: base.lr: | under grid"]),
    ("base: {lr: 1e-3e}", ["c.yaml:1: base.lr: '1e-3e'"]),
    ("grid: {warmup: [1:30, -1, 0.1]}", ["base-60", "-1", "0.1"]),
    ("grid: {seed: [0777, 08]}", ["'0777'", "'08'"]),
    ("grid:\n  lr: 1,5", ["c.yaml:2: grid.lr: '1,5' | write 1.5, or [1,5]"]),
    ("grid: {lr: [0, -1, .inf, .nan, nan]}", ["value 1 of 5: 0.0", "value 2 of 5: -1.0", "'.inf'", "'.nan'", "'nan'"]),
    ("grid: {seed: [1.5, -1, 18446744073709551616]}", ["1.5", "-1", "18446744073709551616"]),
    ("base: {depth: " + "9" * 5000 + "}", ["5000 characters"]),
    ("base: {lr: !foo 1}", ["c.yaml:1: base.lr: | !foo"]),
    ("grid: {lr: !!python/object:os.system [1]}", ["tag:yaml.org,2002:python/object:os.system"]),
    ("grid: !!python/dict {lr: [1]}", ["tag:yaml.org,2002:python/dict"]),
    ("grid:\n  lr: np.logspace(-4,-2,3)", ["c.yaml:2: grid.lr: | {logspace: [first, last, count]}"]),
    ("grid: {lr: {logspac: [1, 2, 3]}}", ["c.yaml:1: grid.lr: 'logspac' | did you mean logspace?"]),
    ("grid: {lr: {}}", ["c.yaml:1: grid.lr: | {logspace: [first, last, count]}"]),
    ("grid: {lr: {logspace: [1, 2]}}", ["[first, last, count], not 2"]),
    ('grid: {lr: {logspace: [1, 2, "3"]}}', ["[first, last, count], not a single value"]),
    ("grid: {lr: {logspace: [0, 1, 3]}}", ["c.yaml:1: grid.lr: 0.0 | above 0"]),
    # values that conflict, beside values that cannot be read
    (
        "base: {heads: 5, lr: x}\ngrid: {order: [2, 4]}",
        ["c.yaml:1: base.lr: 'x'", "heads: 5 | width 64 (at order 2)", "order: | 64^5 | 16777216 | (at order 4)"],
    ),
    ("base: {heads: 5, width: x}", ["c.yaml:1: base.width: 'x'"]),
    ("base: {heads: 5, widht: 60}", ["c.yaml:1: base.widht: | did you mean width?"]),
    ("base: {heads: 5}\nwidth: 60", ["c.yaml:2: width: | under base or grid"]),
    ("base: {heads: 5}\ngird: {width: 60}", ["c.yaml:2: gird: | did you mean grid?"]),
    ("base: {heads: 5}\ngrid: [width]", ["c.yaml:2: grid: | a list"]),
    ("grid: {heads: [4, 5]}\nexclude: [{heads: x}]", ["c.yaml:2: exclude.heads: 'x'"]),
    ("zip: [{heads: [5, 4], width: [60]}]", ["c.yaml:1: zip: | heads has 2, width has 1"]),
    # names
    ("name: a/b\nbase: {depth: 2}", ["c.yaml:1: name: 'a/b' | path separator"]),
    ('name: "a\\0b"\nbase: {depth: 2}', ["control character"]),
    ("name: .a\nbase: {depth: 2}", ["a dot"]),
    *((f"name: 'a{mark}b'\nbase: {{depth: 2}}", [f"remove {mark}"]) for mark in '<>:"|?*'),
    ("name: 'lr:*'\nbase: {depth: 2}", ["c.yaml:1: name: 'lr:*' | remove * :"]),
    *(
        (f"name: {name}\nbase: {{depth: 2}}", ["choose another"])
        for name in ("CON", "nul.txt", "com¹", "LPT3 .x", "conout$")
    ),
    (f"name: {'a' * 101}\nbase: {{depth: 2}}", ["100 characters"]),
    (f"name: {'α' * 80}\nbase: {{depth: 2}}", ["100 characters"]),
    ('name: ""\nbase: {depth: 2}', ["c.yaml:1: name: | empty"]),
    ("title: [a]\nbase: {depth: 2}", ["c.yaml:1: title: | not a list"]),
    # look-alike characters
    ("grid:\n  lr: 1e−3", ["c.yaml:2: grid.lr: '1e−3' | write 1e-3"]),
    ("grid: {lr: [1e–3, 1e-2]}", ["c.yaml:1: grid.lr, value 1 of 2: '1e–3' | write 1e-3"]),
    ("grid: {lr: {logspace: [1e−3, 1, 3]}}", ["c.yaml:1: grid.lr: '1e−3' | write 1e-3"]),
    # other sections
    ("sweeps: []", ["c.yaml:1: sweeps: | at least one"]),
    ("sweeps: {norm: ln}", ["c.yaml:1: sweeps: | a mapping"]),
    (
        "sweeps: [{label: a, norm: ln, gird: 1}]\ngrid: {lr: 1}",
        [
            "c.yaml:1: sweeps[1].norm: | under base or grid",
            "c.yaml:1: sweeps[1].gird: | did you mean grid?",
            "c.yaml:2: grid: | inside",
        ],
    ),
    ("exclude: [{}]\nbase: {depth: 1}", ["c.yaml:1: exclude: | every point"]),
    ("exclude: [{lrr: 1}, {lr: [1, 2]}]", ["exclude.lrr: | did you mean lr?", "exclude.lr: | not a list"]),
    (
        "table: {rows: [lrr], cols: [depth]}",
        ["table.rows: 'lrr' | did you mean lr?", "table.cols: | did you mean columns?"],
    ),
    ("table: {columns: lr}", ["c.yaml:1: table: | rows"]),
    ("table: {rows: [lr, depth], columns: lr}", ["c.yaml:1: table: lr | twice"]),
    ("published: [{where: {lr: 1}, text: 2.28}]", ["c.yaml:1: published[1]: | source"]),
    ("published: [2.28]", ["c.yaml:1: published[1]: | a single value"]),
    (
        "published: [{where: {lable: x, label: y}, text: 1, source: s, page: 3}]",
        ["published[1].where.label: | 'y'", "published[1].where.lable: | did you mean label?", "published[1].page: "],
    ),
]
"""Texts, and the facts of each complaint about them, separated by ` | `."""


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(UserError) as caught:
        sweep_file.parse(text, origin="c.yaml")
    return tuple(caught.value.complaints)


@pytest.mark.parametrize(("text", "facts"), FAULTS, ids=[text[:30] for text, _ in FAULTS])
def test_all_errors_of_a_file_are_reported_at_once(text: str, facts: list[str]) -> None:
    found = complaints(text)
    assert len(found) == len(facts)
    for complaint, expected in zip(found, facts, strict=True):
        assert complaint.startswith("c.yaml:")
        assert all(fact in complaint for fact in expected.split(" | ")), complaint


PROGRAM = """
import json, sys
from normexp.config import sweep_file
from normexp.errors import UserError
for text in json.load(sys.stdin):
    try:
        sweep_file.parse(text, origin="c.yaml")
    except UserError as error:
        print(error)
"""


def test_optimized_python_reports_the_same_errors() -> None:
    texts = [text for text, _ in FAULTS if len(text) < 1000]
    command = [sys.executable, "-O", "-c", PROGRAM]
    output = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True).stdout
    assert output == "".join("\n".join(complaints(text)) + "\n" for text in texts)
