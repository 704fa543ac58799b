"""Answers to the questions about a run: a module each, or a package with a module that computes and one that shows."""
