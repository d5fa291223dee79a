"""The record of a run, the rules that decide its outcome, and other measurements."""
