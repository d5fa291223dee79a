"""Calculations that a text makes or implies, made again: one module a subject, each function from a seed to a Finding.

They stand on the torch side. `normexp.claims.computed` has their table, and finds them by name, so that reading claims
loads no torch. Parameters with defaults are what the text fixes: a claim is judged by the defaults, and tests change
one to see that the calculation can come out the other way.
"""
