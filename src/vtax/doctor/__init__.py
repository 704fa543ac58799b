"""What can run here, and what makes this host a bad place to measure."""
