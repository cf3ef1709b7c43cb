"""Plugins that the built-in configuration does not have: each runs only where a configuration names it, and is imported
only then. Their names and arguments are Volcano's."""
