"""Every complaint about a config that is wrong, all at once, with line and key."""

import json
import subprocess
import sys

import pytest

from normexp.config import sweep_file
from normexp.errors import UserError

FAULTS: list[tuple[str, list[str]]] = [
    # what is no config at all
    ("grid:\n\tdepth: [4]\n", ["c.yaml:2:1: a tab is used for indentation: write spaces"]),
    ("", ["c.yaml: the config is empty"]),
    ("# todo\n", ["c.yaml: the config is empty"]),
    ("~", ["c.yaml: the config is empty"]),
    ("{}", ["c.yaml: the config is empty"]),
    ("- depth: 4\n", ["c.yaml:1: expected a mapping of keys to values, found a list"]),
    ("hello", ["c.yaml:1: expected a mapping of keys to values, found a single value"]),
    ("---\ngrid: {depth: 1}\n---\ngrid: {depth: 2}\n", ["c.yaml:4: holds 2 documents"]),
    ("base: {lr: 1e-3", ["c.yaml:1:16: not YAML: expected ',' or '}'"]),
    ('"\\U00110000": 1', ["c.yaml: not YAML"]),
    ("%YAML 1." + "9" * 5000 + "\n---\na: 1", ["c.yaml: not YAML"]),
    ("base: {depth: \x00}", ["c.yaml: not YAML"]),
    ("[" * 2000, ["c.yaml: nested too deeply"]),
    ("# " + "x" * 300_000, ["c.yaml: longer than 262144 characters"]),
    # keys
    (
        "grid: {depth: [4, 8], norm: [none]}\nbase: {steps: 50}\ngrid: {lr: [1e-3]}\n",
        ["c.yaml:3: grid: stands twice, first at line 1: keep one"],
    ),
    ("base:\n  lr: 1\n  lr: 1\n", ["c.yaml:3: base.lr: stands twice, first at line 2"]),
    (
        "grid: {deph: [4, 8], norm: [rmsnorm], lr: [1e-3]}\nlr: [1e-3]\nbase: {warm-up: 10}\ntrain: {steps: 5}\n",
        [
            "c.yaml:1: grid.deph: unknown key; did you mean depth?",
            "c.yaml:1: grid.norm, value 1 of 1: 'rmsnorm' is not one of "
            "ln, rms, bn, dyt, scale, none; did you mean rms?",
            "c.yaml:2: lr: lr belongs under base or grid",
            "c.yaml:3: base.warm-up: unknown key; did you mean warmup?",
            "c.yaml:4: train: unknown key; known are name, title, base, grid",
        ],
    ),
    ("base: {zip: [{lr: 1}]}", ["c.yaml:1: base.zip: zip stands beside base, not inside it"]),
    ("base: {<<: {depth: 1}}", ["c.yaml:1: base: merge keys (<<) are not read: write the keys out"]),
    ("base: {? [a] : 1}", ["c.yaml:1: base: a key must be a word, not a list"]),
    ("base: [1]", ["c.yaml:1: base: expected a mapping of keys to values, found a list"]),
    ("base: {depth: 1}\ngrid: {depth: [1]}", ["c.yaml:2: grid.depth: stands in base too (c.yaml:1): keep one"]),
    ("zip: [{lr: 1}, {lr: 2}]", ["c.yaml:1: zip.lr: stands in zip too"]),
    ("zip: [{depth: [4, 16]}]\ngrid: {depth: [1]}", ["c.yaml:1: zip.depth: stands in grid too (c.yaml:2): keep one"]),
    (
        "zip: [{depth: [4, 16, 64], lr: [1e-3, 3e-4]}]",
        ["c.yaml:1: zip: axes that advance together must be of one length: depth has 3, lr has 2"],
    ),
    # values
    (
        'grid:\n  depth: [4.0, 4.5, "8", true, 0, -2, [16]]\n',
        [
            "c.yaml:2: grid.depth, value 2 of 7: 4.5 is not a whole number",
            "c.yaml:2: grid.depth, value 3 of 7: '8' is text: write 8 without quotes",
            "c.yaml:2: grid.depth, value 4 of 7: 'true' is not a number",
            "c.yaml:2: grid.depth, value 6 of 7: -2 is out of range: a whole number at least 0",
            "c.yaml:2: grid.depth, value 7 of 7: takes one value, not a list",
        ],
    ),
    ('grid: {depth: "4, 8"}', ["'4, 8' is text: write a whole number at least 0 and at most 10000, without quotes"]),
    ("grid:\n  depth: 4, 8", ["c.yaml:2: grid.depth: '4, 8' is not a number; for several values write [4, 8]"]),
    ("grid: {depth: []}", ["c.yaml:1: grid.depth: has no value: write at least one, or drop the key"]),
    ("base: {lr: }", ["c.yaml:1: base.lr: is empty: write a number above 0"]),
    ("base: {lr: [1e-3]}", ["c.yaml:1: base.lr: takes one value, not a list: move it under grid"]),
    ("base: {lr: 1e-3e}", ["c.yaml:1: base.lr: '1e-3e' is not a number"]),
    ("grid: {warmup: [1:30, -1, 0.1]}", ["base-60", "-1 is out of range", "0.1 is not a whole number"]),
    ("grid: {seed: [0777, 08]}", ["'0777' starts with 0", "'08' starts with 0"]),
    ("grid:\n  lr: 1,5", ["c.yaml:2: grid.lr: '1,5' has a decimal comma: write 1.5, or [1,5] for two values"]),
    (
        "grid: {lr: [0, -1, .inf, .nan, nan]}",
        ["value 1 of 5: 0.0 is", "value 2 of 5: -1.0 is", "'.inf' is not", "'.nan' is not", "'nan' is not"],
    ),
    ("grid: {seed: [1.5, -1, 18446744073709551616]}", ["1.5 is not a whole", "-1 is out of", "616 is out of range"]),
    ("base: {depth: " + "9" * 5000 + "}", ["a text of 5000 characters is no value"]),
    ("base: {lr: !foo 1}", ["c.yaml:1: base.lr: the tag !foo is not read: write the plain value"]),
    ("grid: {lr: !!python/object:os.system [1]}", ["the tag tag:yaml.org,2002:python/object:os.system is not read"]),
    ("grid: !!python/dict {lr: [1]}", ["the tag tag:yaml.org,2002:python/dict is not read"]),
    ("grid:\n  lr: np.logspace(-4,-2,3)", ["code is never run: a list or an axis is written out, or as {logspace"]),
    ("grid: {lr: {logspac: [1, 2, 3]}}", ["c.yaml:1: grid.lr: 'logspac' builds no axis; did you mean logspace?"]),
    ("grid: {lr: {}}", ["c.yaml:1: grid.lr: takes a value, a list, or one of {logspace: [first, last, count]}"]),
    ("grid: {lr: {logspace: [1, 2]}}", ["logspace takes three numbers, [first, last, count], not 2"]),
    (
        'grid: {lr: {logspace: [1, 2, "3"]}}',
        ["logspace takes three numbers, [first, last, count], not a single value there"],
    ),
    ("grid: {lr: {logspace: [0, 1, 3]}}", ["c.yaml:1: grid.lr: 0.0 is out of range: a number above 0"]),
    # values that clash, beside those that cannot be read
    (
        "base: {heads: 5, lr: x}\ngrid: {order: [2, 4]}",
        [
            "c.yaml:1: base.lr: 'x' is not a number",
            "c.yaml: heads: 5 does not divide width 64 (at order 2)",
            "c.yaml: order: the source has 64^5 probabilities, more than 16777216: lower order or vocab (at order 4)",
        ],
    ),
    ("base: {heads: 5, width: x}", ["c.yaml:1: base.width: 'x' is not a number"]),
    ("base: {heads: 5, widht: 60}", ["c.yaml:1: base.widht: unknown key; did you mean width?"]),
    ("base: {heads: 5}\nwidth: 60", ["c.yaml:2: width: width belongs under base or grid"]),
    ("base: {heads: 5}\ngird: {width: 60}", ["c.yaml:2: gird: unknown key; did you mean grid?"]),
    ("base: {heads: 5}\ngrid: [width]", ["c.yaml:2: grid: expected a mapping of keys to values, found a list"]),
    ("grid: {heads: [4, 5]}\nexclude: [{heads: x}]", ["c.yaml:2: exclude.heads: 'x' is not a number"]),
    (
        "zip: [{heads: [5, 4], width: [60]}]",
        ["c.yaml:1: zip: axes that advance together must be of one length: heads has 2, width has 1"],
    ),
    # names and what is said of the whole
    ("name: a/b\nbase: {depth: 2}", ["c.yaml:1: name: 'a/b' must not hold a path separator"]),
    ('name: "a\\0b"\nbase: {depth: 2}', ["must not hold a path separator or a control character"]),
    ("name: .a\nbase: {depth: 2}", ["must not start with a dot"]),
    *(
        (f"name: 'a{mark}b'\nbase: {{depth: 2}}", [f"cannot name a folder on every system: leave out {mark}"])
        for mark in '<>:"|?*'
    ),
    ("name: 'lr:*'\nbase: {depth: 2}", ["c.yaml:1: name: 'lr:*' cannot name a folder on every system: leave out * :"]),
    *(
        (f"name: {name}\nbase: {{depth: 2}}", ["cannot name a folder on every system: write another"])
        for name in ("CON", "nul.txt", "com¹", "LPT3 .x", "conout$")
    ),
    ("grid:\n  lr: 1e−3", ["c.yaml:2: grid.lr: '1e−3' has a typographic minus: write 1e-3"]),
    ("grid: {lr: [1e–3, 1e-2]}", ["c.yaml:1: grid.lr, value 1 of 2: '1e–3' has a typographic minus: write 1e-3"]),
    ("grid: {lr: {logspace: [1e−3, 1, 3]}}", ["c.yaml:1: grid.lr: '1e−3' has a typographic minus: write 1e-3"]),
    (f"name: {'a' * 101}\nbase: {{depth: 2}}", ["is longer than 100 characters"]),
    (f"name: {'α' * 80}\nbase: {{depth: 2}}", ["is longer than 100 characters"]),
    ('name: ""\nbase: {depth: 2}', ["c.yaml:1: name: is empty: write a text, or drop the key"]),
    ("title: [a]\nbase: {depth: 2}", ["c.yaml:1: title: takes one value, not a list"]),
    ("sweeps: []", ["c.yaml:1: sweeps: has no entry: write at least one"]),
    ("sweeps: {norm: ln}", ["c.yaml:1: sweeps: expected a list, found a mapping"]),
    (
        "sweeps: [{label: a, norm: ln, gird: 1}]\ngrid: {lr: 1}",
        [
            "c.yaml:1: sweeps[1].norm: norm belongs under base or grid",
            "c.yaml:1: sweeps[1].gird: unknown key; did you mean grid?",
            "c.yaml:2: grid: beside sweeps, grid belongs inside its entries",
        ],
    ),
    ("exclude: [{}]\nbase: {depth: 1}", ["c.yaml:1: exclude: an empty entry would leave out every point"]),
    (
        "exclude: [{lrr: 1}, {lr: [1, 2]}]",
        ["exclude.lrr: unknown key; did you mean lr?", "takes one value, not a list"],
    ),
    (
        "table: {rows: [lrr], cols: [depth]}",
        ["table.rows: 'lrr' is no run key; did you mean lr?", "table.cols: unknown key; did you mean columns?"],
    ),
    ("table: {columns: lr}", ["c.yaml:1: table: has no rows"]),
    ("table: {rows: [lr, depth], columns: lr}", ["c.yaml:1: table: lr stands twice"]),
    ("published: [{where: {lr: 1}, text: 2.28}]", ["c.yaml:1: published[1]: lacks source"]),
    ("published: [2.28]", ["c.yaml:1: published[1]: expected a mapping of keys to values, found a single value"]),
    (
        "published: [{where: {lable: x, label: y}, text: 1, source: s, page: 3}]",
        [
            "where.label: 'y' is not there",
            "where.lable: unknown key; did you mean label?",
            "published[1].page: unknown key",
        ],
    ),
]


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(UserError) as caught:
        sweep_file.parse(text, origin="c.yaml")
    return tuple(caught.value.complaints)


@pytest.mark.parametrize(("text", "words"), FAULTS, ids=[text[:30] for text, _ in FAULTS])
def test_every_complaint_of_a_file_comes_at_once(text: str, words: list[str]) -> None:
    found = complaints(text)
    assert len(found) == len(words)
    for complaint, expected in zip(found, words, strict=True):
        assert complaint.startswith("c.yaml:")
        assert expected in complaint


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


def test_the_same_faults_are_found_with_optimization() -> None:
    texts = json.dumps([text for text, _ in FAULTS])
    command = [sys.executable, "-O", "-c", PROGRAM]
    found = subprocess.run(command, input=texts, capture_output=True, text=True, check=True).stdout
    assert found == "".join("\n".join(complaints(text)) + "\n" for text, _ in FAULTS)
