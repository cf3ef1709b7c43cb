"""The policies a cycle follows, one module each."""
