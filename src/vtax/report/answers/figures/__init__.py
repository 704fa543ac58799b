"""The figures and tables of the publication that a study repeats."""
