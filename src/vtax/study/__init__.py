"""What to measure: the study file, its factors, and the cells they expand to."""
