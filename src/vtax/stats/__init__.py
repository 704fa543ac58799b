"""Statistics as pure functions on arrays: no input or output, and no types of vtax beyond its own.

The method in short: the block is the unit of replication. Trials are averaged within a block, platforms are compared
by the ratio within a block, and intervals, tests and stopping rules see one log-ratio per block. Every result is a
frozen value that carries its `warnings`. `docs/statistics.md` gives the method and its sources.
"""
