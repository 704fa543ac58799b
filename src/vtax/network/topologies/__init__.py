"""The shipped topologies, one module each."""
