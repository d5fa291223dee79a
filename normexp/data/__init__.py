"""Token sources with known next-token probabilities, tasks built on them, and named random streams."""
