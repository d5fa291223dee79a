"""The texts that ship with the package, a folder each: its claims, the sweeps that they read, and its calculations.

A folder holds `claims.yaml`, `sweeps/*.yaml`, and `calculations.py`, the table of its calculations. The other modules
hold these: one module a subject, each function from a seed to a Finding. They stand on the torch side and are imported
by name (`normexp.claims.computed`), so that reading claims loads no torch. A parameter with a default is what the text
fixes: a claim is judged by the default, and tests change it to see the other verdict.
"""
