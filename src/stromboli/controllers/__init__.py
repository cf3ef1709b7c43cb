"""What keeps objects true: controllers without input or output of their own."""
