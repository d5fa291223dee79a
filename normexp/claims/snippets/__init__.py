"""Calculations that a text makes or implies, made again: one module a subject, each function from a seed to a Finding.

They stand on the torch side. `normexp.claims.computed` has their table, and finds them by name, so that reading claims
loads no torch.
"""
