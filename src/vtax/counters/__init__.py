"""What is read around a trial, in the guest and on the host."""
