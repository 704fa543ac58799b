"""Studies: the file, its factors, and the cells they expand to."""
