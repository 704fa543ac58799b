"""The host: running programs, locations of files, registered resources and their removal."""
