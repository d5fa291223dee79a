"""Token sources with known next-token probabilities, the tasks made from them, and named random streams."""
