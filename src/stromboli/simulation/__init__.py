"""A world in virtual time, fed by scenario files."""
