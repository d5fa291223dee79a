"""The files of an edge search: its tables, its figure and its summary, in the folder of its runs."""

from __future__ import annotations

from collections.abc import Mapping

from normexp.analysis import frames
from normexp.analysis.edge_search import Search
from normexp.analysis.edge_tables import borders_frame, conclusion, cost, shares_frame, table
from normexp.plots.edges import draw
from normexp.plots.style import render
from normexp.records.record import RunRecord
from normexp.report.markdown import escape, table_text
from normexp.report.report import write_figure
from normexp.storage.store import Store


def write(store: Store, search: Search, records: Mapping[str, RunRecord]) -> None:
    """Write edge.md, edge.csv and the figure with its data. Raises StorageError."""
    question, edges = search.question, search.edges(records)
    found = table(question, edges)
    words = (conclusion(question, edges), cost(search, records), found.title)
    parts = [f"# {escape(search.title)}", *map(escape, words), table_text(found), escape(found.note)]
    store.write_derived("edge.md", "\n\n".join(parts) + "\n")
    store.write_derived("edge.csv", frames.to_csv(borders_frame(edges)))
    images = render(draw(search.title, question, edges), dpi=180)
    write_figure(store, "edge", images, shares_frame(question, edges))
