"""docs/speed.md shows what the benchmarks' CSV files hold."""

from pathlib import Path

from benchmarks import page


def test_the_page_is_filled_from_the_files() -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text) == text
    assert text.count("<!-- end -->") == len(page.COLUMNS)


def test_a_table_has_the_rows_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "memory.csv").write_text("depth,peak_mib,private_mib\n2,297,54\n30,340,98\n")
    old = "before\n<!-- memory -->\nold\n<!-- end -->\nafter"
    assert page.filled(old, tmp_path) == (
        "before\n<!-- memory -->\n\n| layers | peak, MiB | its own at the end, MiB |\n| --- | --- | --- |\n"
        "| 2 | 297 | 54 |\n| 30 | 340 | 98 |\n\n<!-- end -->\nafter"
    )
