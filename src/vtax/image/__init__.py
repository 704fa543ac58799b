"""The one root file system every guest runs, and its exports."""
