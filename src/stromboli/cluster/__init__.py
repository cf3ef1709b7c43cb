"""The scheduler's state: nodes, tasks, jobs, queues and namespaces, and the ledger of what they occupy.

`Cluster` takes events and gives snapshots. Its parts are `task_index` (pods), `reservations`, `queue_index` (groups
and queues), `ledger` and `node_table` (amounts per node), and `model` (the classes of all these).
"""

from .cluster import Cluster
from .events import (
    Applied,
    BindFailed,
    ClusterEvent,
    Deleted,
    EvictFailed,
    NodesMeasured,
    ReservationWriteFailed,
    UngateFailed,
)
from .holdings import Holding, JointView, LogView, Moment, View
from .ledger import SHARED, Ledger
from .model import (
    OCCUPYING,
    WAITING,
    Job,
    JobKey,
    Lock,
    NamespaceInfo,
    Node,
    Queue,
    QueueName,
    Shape,
    Status,
    Task,
    TaskKey,
    group_status,
    role_minimums_apply,
)
from .node_table import NodeTable, NodeUse
from .object_warnings import ObjectWarning
from .refused_bind import RefusedBind
from .resources import CPU, MEMORY, PODS, UNLIMITED, UNOFFERED, UNOFFERED_NAME, Matrix, ResourceAxis, Vector, fits
from .snapshot import Snapshot
from .volumes import HeldBind, VolumeIndex

__all__ = [
    "CPU",
    "MEMORY",
    "OCCUPYING",
    "PODS",
    "SHARED",
    "UNLIMITED",
    "UNOFFERED",
    "UNOFFERED_NAME",
    "WAITING",
    "Applied",
    "BindFailed",
    "Cluster",
    "ClusterEvent",
    "Deleted",
    "EvictFailed",
    "HeldBind",
    "Holding",
    "Job",
    "JobKey",
    "JointView",
    "Ledger",
    "Lock",
    "LogView",
    "Matrix",
    "Moment",
    "NamespaceInfo",
    "Node",
    "NodeTable",
    "NodeUse",
    "NodesMeasured",
    "ObjectWarning",
    "Queue",
    "QueueName",
    "RefusedBind",
    "ReservationWriteFailed",
    "ResourceAxis",
    "Shape",
    "Snapshot",
    "Status",
    "Task",
    "TaskKey",
    "UngateFailed",
    "Vector",
    "View",
    "VolumeIndex",
    "fits",
    "group_status",
    "role_minimums_apply",
]
