"""A plan against stored runs: what is missing is run, stored and reported."""
