"""Looks at a run, one module each: a view turns an analysis into a document. See registry.py."""
