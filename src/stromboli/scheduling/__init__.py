"""How we decide: configuration, sessions, placement and explanations."""
