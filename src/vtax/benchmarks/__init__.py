"""Real benchmark tools: one module per tool, and the registry that finds them."""
