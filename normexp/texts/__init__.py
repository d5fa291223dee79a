"""The texts that are put to the test: their claims, sweeps and calculations."""
