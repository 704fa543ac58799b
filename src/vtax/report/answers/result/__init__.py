"""Result of a run."""
