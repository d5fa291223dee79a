"""An article on normalization and residual connections: its claims, sweeps and calculations."""
