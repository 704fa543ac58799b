"""The hosts of a run of several."""
