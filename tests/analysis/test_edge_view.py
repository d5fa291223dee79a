"""The table of stability limits has both ends of each bracket, and the conclusion claims no more."""

from __future__ import annotations

from itertools import pairwise

from edgesweep import CELLS
from golden_texts import EDGE_CONCLUSION

from normexp.analysis import edge_tables as views
from normexp.analysis.stability_edges import Edge, Finding, Question, Share, Span
from normexp.config import sweep_file


def edge_of(name: str, *shares: tuple[float, int], finding: Finding = Finding.BORDER) -> Edge:
    found = [Share(value=value, learned=learned, seeds=3, failed=0, needed=2) for value, learned in shares]
    borders = tuple((low, high) for low, high in pairwise(found) if low.verdict is not high.verdict)
    values = {"label": "", "position": name}
    return Edge(values=values, shares=tuple(found), finding=finding, borders=borders, finished=True)


def question() -> Question:
    span = Span(low=1e-4, high=1e-1, resolution=1.5, whole=False)
    return Question(sweep=sweep_file.parse(CELLS, origin="a"), axis="lr", span=span, seeds=(0, 1, 2), needed=2)


POST = edge_of("post", (1e-4, 3), (1e-3, 1), (1.4e-3, 0), (1e-1, 0))
PRE = edge_of("pre", (1e-4, 3), (3e-3, 1 + 1), (0.0119, 3), (0.015, 1), (1e-1, 0))
WINDOW = edge_of("mix", (1e-4, 0), (3e-3, 3), (4e-3, 0), (1e-1, 0), finding=Finding.SEVERAL)
ALL = edge_of("glm", (1e-4, 3), (3e-3, 3), (1e-1, 2), finding=Finding.EVERYWHERE)
NONE = edge_of("b2t", (1e-4, 0), (3e-3, 0), (1e-1, 0), finding=Finding.NOWHERE)


def test_the_table_gives_both_ends_with_k_of_n_and_says_what_a_bracket_hides() -> None:
    table = views.table(question(), [POST, PRE, WINDOW, ALL, NONE])
    assert table.header == ("position", "learns", "at", "but not at", "values run", "remark")
    assert table.rows == (
        ("post", "up to", "0.0001 (3/3)", "0.001 (1/3)", "4", ""),
        ("pre", "up to", "0.0119 (3/3)", "0.015 (1/3)", "5", "mixed at 0.003 (2/3)"),
        ("mix", "from", "0.003 (3/3)", "0.0001 (0/3)", "4", "learns only in between"),
        ("mix", "up to", "0.003 (3/3)", "0.004 (0/3)", "", ""),
        ("glm", "at every value", "0.0001 (3/3) to 0.1 (2/3)", "", "3", ""),
        ("b2t", "at no value", "", "0.0001 (0/3) to 0.1 (0/3)", "3", ""),
    )


def test_the_conclusion_claims_no_more_than_the_brackets() -> None:
    assert views.conclusion(question(), [POST, PRE, ALL, NONE]) == EDGE_CONCLUSION
    near = edge_of("mix", (1e-4, 3), (5e-3, 2), (2e-2, 0))
    assert "highest trainable lr lies between 0.005 and 0.02 in 2 cells" in views.conclusion(question(), [PRE, near])
    single = views.conclusion(question(), [POST])
    assert "position post" in single
    assert "up to lr 0.0001 (3/3) but not at 0.001 (1/3)" in single
    assert "lowest trainable" not in views.conclusion(question(), [POST, PRE])
    both = views.conclusion(question(), [ALL, edge_of("pre", (1e-4, 3), (1e-1, 3), finding=Finding.EVERYWHERE), POST])
    assert "The cells position glm and position pre learn at all values" in both
