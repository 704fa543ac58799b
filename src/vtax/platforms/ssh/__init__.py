"""Machines that are reached by SSH."""
