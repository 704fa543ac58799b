"""Counters that are read around a trial, in the guest and on the host."""
