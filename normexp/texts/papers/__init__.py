"""Papers on normalization: their claims, sweeps and calculations."""
