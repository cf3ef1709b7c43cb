"""What became of a write whose response was lost, and what an error of the server itself means."""
