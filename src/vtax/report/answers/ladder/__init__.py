"""The cost of a platform, rung by rung."""
