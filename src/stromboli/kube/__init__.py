"""Everything that talks to a real Kubernetes API server.

commands      the commands `scheduler`, `controllers`, `run` and `hollow-nodes`
scheduler     the scheduler as a component of a process
controllers   the controllers as a component of a process
hollow        nodes that exist only in the API server, for tests and experiments
bench         the benchmark of the scheduler on an API server
runtime       what every process needs: leader election, health, metrics, logs, events
client        kubeconfig, credentials, typed client, reflector, rate limits
crds          the CustomResourceDefinitions, generated from our types
"""
