"""Xen: domains, and dom0 itself."""
