"""Renderers of a document: a terminal, a page, a program. Renderers know no view and no run."""
