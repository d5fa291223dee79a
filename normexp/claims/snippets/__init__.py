"""Calculations that a text makes or implies, made again: one module a subject, torch imported when one runs."""
