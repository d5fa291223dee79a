"""The command line: parse, call one function, print. The only part that knows Typer."""
