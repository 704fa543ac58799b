"""Two sides, compared."""
