"""The commands that need an API server. Their modules import the rest of the package only when a command runs, so
that `--help` stays fast."""
