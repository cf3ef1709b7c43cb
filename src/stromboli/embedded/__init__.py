"""An API server in this process, for one machine: real Kubernetes clients can talk to it, and nothing else is needed.

    store      objects by key; every commit has the next resourceVersion; a window of history
    schema     what the fields of a kind are: built-in kinds from text files, custom kinds from their definitions
    patches    JSON, merge and strategic merge patches, server-side apply, managed fields
    kinds      what is special about a kind: defaults, rules, columns
    server     a request and a time in, a response or a watch out
    upkeep     what Kubernetes leaves to controllers: garbage collection, namespaces, ReplicaSets, Jobs
    http       sockets, TLS and tokens around all this

Everything but `store.sqlite` and `http` is pure: no clock, no socket, no disk.
"""
