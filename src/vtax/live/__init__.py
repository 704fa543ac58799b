"""A run while it is measured: its state, and the document that shows it. `vtax watch` and `vtax serve` use both."""
