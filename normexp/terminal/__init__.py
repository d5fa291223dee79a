"""What commands print: live views and console tables."""
