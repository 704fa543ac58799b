"""Published findings, judged by a run."""
