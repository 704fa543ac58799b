"""Where the noise of a run comes from."""
