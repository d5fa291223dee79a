"""The calculations behind what papers predict."""
