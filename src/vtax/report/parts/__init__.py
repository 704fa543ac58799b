"""Parts of documents that several views, or commands without a view, show."""
