"""A study over its runs."""
