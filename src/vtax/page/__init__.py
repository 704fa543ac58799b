"""`vtax serve`: a read-only web page over the store, and over the run that measures."""
