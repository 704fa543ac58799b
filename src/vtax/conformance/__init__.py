"""The plug-in contract of platforms, benchmarks, topologies and views, as named checks."""
