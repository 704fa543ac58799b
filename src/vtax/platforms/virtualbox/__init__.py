"""VirtualBox: a virtual machine with a CPU of its own making."""
