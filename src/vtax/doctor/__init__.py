"""Checks which platforms run here and what disturbs measurements on this host."""
