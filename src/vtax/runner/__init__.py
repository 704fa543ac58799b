"""Plan, execute, journal, resume, clean up."""
