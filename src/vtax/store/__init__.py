"""Everything measured, in one relational database."""
