"""How to repeat a run."""
