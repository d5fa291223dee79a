"""The command line: parse, call one function, print. The only package that imports Typer."""
