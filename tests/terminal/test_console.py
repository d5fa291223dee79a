"""No word is lost on a terminal of any width."""

from __future__ import annotations

import io

import pytest
from printed import printed

from normexp.analysis.tables import TextTable
from normexp.terminal.console import Encodable, ResponsiveTable, output

TABLE = TextTable(
    title="",
    header=("norm / lr", "depth 12, position post", "depth 48"),
    rows=(
        ("none, lr 0.0001", "plateau 4.04 [NaN near step 900]", "1.234 ± 0.005 (3)"),
        ("rms, lr 0.001", "averylongwordthatcannotbewrappedanywhere 1", "nan @12"),
    ),
)
PATH = "Tables and figures: /home/someone/with a space/results/a_rather_long_name_of_a_sweep"


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("soft_wrap", [False, True])
def test_every_cell_is_whole_at_every_width(soft_wrap: bool) -> None:
    for width in range(10, 201):
        text = printed(ResponsiveTable(TABLE), width=width, soft_wrap=soft_wrap)
        assert max(map(len, text.splitlines())) <= width
        in_columns = text.count("depth 48") == 1 and "norm / lr:" not in text
        for cell in (*TABLE.header, *TABLE.rows[0], *TABLE.rows[1]):
            assert cell in text if in_columns else squeezed(cell) in squeezed(text), (width, cell)
    assert in_columns, "at 200 columns the table fits"


def test_rows_in_a_pipe_end_without_blanks() -> None:
    lines = printed(ResponsiveTable(TABLE)).splitlines()
    assert len(lines) == 4
    assert lines == [line.rstrip() for line in lines]
    assert lines[-1].endswith("nan @12")


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("soft_wrap", [False, True])
def test_no_word_of_a_paragraph_is_lost(soft: bool, soft_wrap: bool) -> None:
    words = [f"word{index}" for index in range(20)]
    lines = printed(Encodable(" ".join(words), soft=soft), width=40, soft_wrap=soft_wrap).splitlines()
    assert " ".join(lines).split() == words
    assert (len(lines) == 1) == (soft and soft_wrap)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_soft_line_and_a_plain_one_can_be_copied(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    buffer = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = output(buffer)
    assert (console.is_terminal, console.width) == (True, 40)
    for part in (PATH, Encodable(f"{PATH} ±", soft=True), Encodable(PATH)):
        console.print(part)
    buffer.seek(0)
    plain, soft, *folded = buffer.read().splitlines()
    assert plain == PATH
    assert soft == f"{PATH} " + ("+/-" if encoding == "ascii" else "±")
    assert len(folded) > 1
    assert max(map(len, folded)) <= 40
