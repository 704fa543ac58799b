"""Whether anything became slower or costlier."""
