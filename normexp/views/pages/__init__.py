"""Documents: a page as blocks, as Markdown and as HTML; the page of a sweep, and the report of claims."""
