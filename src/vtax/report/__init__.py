"""Tables, figures and files made from a run."""
