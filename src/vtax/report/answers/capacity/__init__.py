"""How many guests a platform takes: the answer of a study that bounds a metric by `guests_until`."""
