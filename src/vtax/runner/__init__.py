"""Plans, executes and resumes runs."""
