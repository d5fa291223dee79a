"""The texts whose claims are checked, with their claims, sweeps and calculations."""
