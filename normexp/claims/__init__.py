"""Claims of a text as data, each checked against stored runs, a calculation, or its source."""
