"""What we know: nodes, tasks, jobs, queues and namespaces, and who holds what."""
