"""A real cluster: the client, what is read from an API server, what is written to it, and the processes that do so."""
