"""Claims of an article or paper as data, each put to the test: stored runs, a calculation made now, or its source."""
