"""Emulated machines: whole Debian systems with a hypervisor, for demonstrations and for the tests of vtax itself."""
