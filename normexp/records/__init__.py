"""The record of a run, the rules for its outcome, and other measurements."""
