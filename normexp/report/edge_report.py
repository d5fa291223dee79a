"""Write the tables, the figure and the summary of a stability-limit search into its folder."""

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
    limits = table(question, edges)
    sentences = (conclusion(question, edges), cost(search, records), limits.title)
    parts = [f"# {escape(search.title)}", *map(escape, sentences), table_text(limits), escape(limits.note)]
    store.write_derived("edge.md", "\n\n".join(parts) + "\n")
    store.write_derived("edge.csv", frames.to_csv(borders_frame(edges)))
    images = render(draw(search.title, question, edges), dpi=180)
    write_figure(store, "edge", images, shares_frame(question, edges))
