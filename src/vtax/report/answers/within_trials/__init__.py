"""Courses of single trials, and latencies of all their requests."""
