"""The generated tables of documents agree with the tables of the code."""

import re
from pathlib import Path

import pytest

from normexp import reference
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES


def test_one_row_a_key_with_its_default_first() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in reference.config_table().splitlines()]
    assert {len(row) for row in rows} == {5}
    assert [row[0] for row in rows[2:]] == [f"`{name}`" for name in KEYS]
    cells = {row[0].strip("`"): row[1:] for row in rows[2:]}
    assert cells["depth"][:2] == ["20", "a whole number at least 0 and at most 10000"]
    assert cells["norm"][:3] == ["ln, none; [all](schemes.md)", "", KEYS["norm"].matters_when]
    assert cells["final_norm"][0] == "auto, none; [all](schemes.md)"
    assert cells["qk_norm"][0] == "none, rms, ln, full, l2"
    assert cells["residual"][0] == "true, false"
    for name, key in KEYS.items():
        assert re.split("[,;] ", cells[name][0])[0] == str(key.default).lower()
        assert cells[name][3] == key.help.replace("|", "\\|")


def test_the_tables_of_schemes_and_norms_have_every_row() -> None:
    for table, rows in ((reference.schemes_table(), SCHEMES), (reference.norms_table(), NORMS)):
        lines = table.splitlines()
        assert [line.split("|")[1].strip().strip("`") for line in lines[2:]] == list(rows)
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_a_document_is_rewritten_in_place_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- config reference -->\nold\n<!-- end -->\nafter é\n", encoding="utf-8")
    assert reference.main(["--check", str(path)]) == 1
    assert "out of date" in capsys.readouterr().out
    assert "old" in path.read_text(encoding="utf-8")
    assert reference.main([str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- config reference -->\n\n| key |")
    assert text.endswith("|\n\n<!-- end -->\nafter é\n")
    assert "old" not in text
    assert reference.main(["--check", str(path)]) == 0
    assert reference.replaced(text) == text


def test_a_document_without_markers_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("<!-- config reference -->", "no markers"):
        with pytest.raises(UserError, match="<!-- end -->"):
            reference.replaced(text)
    assert reference.main([str(tmp_path / "none.md")]) == 2
    assert reference.main([]) == 2
    assert "usage" in capsys.readouterr().err
