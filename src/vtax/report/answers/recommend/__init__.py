"""The platform to use for a workload."""
