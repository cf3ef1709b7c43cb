"""Hollow nodes: Node objects without machines, whose pods only pretend to run. Known from kubemark.

hollow_nodes    registers the nodes, keeps them alive, removes them
node_pool       the Node objects and their leases
kubelet         moves the pods on these nodes through their lifecycle
pod_lifecycle   what happens to a pod next
readiness       nodes that are made NotReady by an annotation
"""

from .hollow_nodes import HollowNodes, Kubelet
from .node_pool import HollowNodePool

__all__ = ["HollowNodePool", "HollowNodes", "Kubelet"]
