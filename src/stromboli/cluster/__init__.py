"""What we know: nodes, tasks, jobs, queues and namespaces, in columns, and the ledger that keeps them."""

from .cluster import Cluster
from .events import Applied, BindFailed, ClusterEvent, Deleted, EvictFailed
from .ledger import Holding, Ledger, NodeTable
from .model import OCCUPYING, WAITING, Job, JobKey, NamespaceInfo, Node, Queue, QueueName, Shape, Status, Task, TaskKey
from .resources import CPU, MEMORY, PODS, UNLIMITED, Matrix, ResourceAxis, Vector, fits
from .snapshot import Snapshot

__all__ = [
    "CPU",
    "MEMORY",
    "OCCUPYING",
    "PODS",
    "UNLIMITED",
    "WAITING",
    "Applied",
    "BindFailed",
    "Cluster",
    "ClusterEvent",
    "Deleted",
    "EvictFailed",
    "Holding",
    "Job",
    "JobKey",
    "Ledger",
    "Matrix",
    "NamespaceInfo",
    "Node",
    "NodeTable",
    "Queue",
    "QueueName",
    "ResourceAxis",
    "Shape",
    "Snapshot",
    "Status",
    "Task",
    "TaskKey",
    "Vector",
    "fits",
]
