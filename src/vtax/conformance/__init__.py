"""What vtax expects of platforms, benchmarks, topologies and views, as named checks."""
