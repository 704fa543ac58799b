"""The machine under vtax: running programs, where files live, what was made and must be undone."""
