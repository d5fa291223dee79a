"""Reports and exports: HTML and Markdown pages, LaTeX, event files."""
