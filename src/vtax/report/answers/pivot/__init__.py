"""A table of one value by the factors of a run."""
