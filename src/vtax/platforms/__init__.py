"""Ways to run the guest: one module per driver, and the registry that finds them."""
