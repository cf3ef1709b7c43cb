"""The types of callbacks and of their answers, and how the answers of several plugins become one.

Orders are sort keys, not comparators: a key is computed once per push, and the keys of several plugins form a tuple.
Filters and scores answer for many nodes at once (arrays over rows). A plugin can also register a function for a single
node, which is slower.

How answers combine is written in `points`, where each extension point is one object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Job, Matrix, Node, Queue, QueueName, Shape, Task, Vector
from stromboli.cluster.topology import Tree

EvictionKind = Literal["preemptable", "reclaimable"]
"""By which rules pods are evicted: inside a queue, or for another one."""
Rows = npt.NDArray[np.int64]
ReasonIds = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]

OrderKey = Any  # a number, a string, or a tuple of those; compared only with keys of the same plugin


class GroupCondition(NamedTuple):
    """A condition of a PodGroup, as a feature states it. Its time is when its reason or message changed last, unless it
    is stated as well."""

    type: str
    reason: str
    message: str
    since: float | None = None


class Vote(IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Verdict(IntEnum):
    """A plugin's answer to: may this candidate be evicted for that task?

    Protecting plugins (gang, conformance, pdb) answer NO or NOTHING, and all of them are asked: one NO protects the
    candidate. Permitting plugins (priority and drf in preempt; proportion and capacity in reclaim) are asked tier by
    tier. The first tier with an opinion decides, and inside it a NO beats a YES. Without a YES there is no eviction.
    A verdict is about the present state of the session: victims chosen so far are already evicted in the statement.
    """

    NO = -1
    NOTHING = 0
    YES = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is refused, with numbers. `code` is one of `reasons.Code`; amounts are in the unit of
    `resource`."""

    code: str
    resource: str = ""
    need: int = 0
    have: int = 0
    total: int = 0
    subject: str = ""  # the queue, namespace, role … that refuses
    kept: int = 0  # what is kept for other jobs or promised to them, beside what the queue has
    kept_for: tuple[str, ...] = ()  # the jobs that this is promised to, if it is all promised
    kept_own: int = 0  # what is promised to other pods of the same job
    spared: int = 0  # the part of `have` that does not count, because it can be taken back
    leaving: int = 0  # what terminating pods of the queue still use, beside what it has
    closed: int = 0  # what nodes that take no pods now would add to `total`
    outside: int = 0  # what pods in no queue would add to it, if they ended
    factor: str = ""  # `total` is what there is for queues, times this
    creator: str = ""  # the object for which controllers create the pods that are missing
    minimum: str = "minMember"  # the field of the group that says how many pods it needs


KeyOfTask = Callable[[Task], Hashable]


class DependsOn(Enum):
    """What in a task the answer of a filter or score depends on. Tasks with the same signature get the same answers.
    Pods of a gang differ in their names only, so most callbacks need to be asked once for all of them; but each has to
    say so. One that says nothing may look at anything in a pod, or at something outside the cluster: it is asked for
    each task in each cycle, which is slower and never wrong."""

    SHAPE = "shape"  # the spec of a pod without what is its own (name, claims): one answer for all pods of a template
    LABELS = "labels"  # also its namespace and labels
    TASK = "task"  # anything in the pod, or elsewhere


Signature = DependsOn | KeyOfTask
"""Or: the shape, and what this function returns for a task."""


def key_of(signature: Signature) -> KeyOfTask | None:
    """What makes a task different from others of its shape; None if nothing does."""
    if isinstance(signature, DependsOn):
        return _KEYS[signature]
    return signature


def _labels(task: Task) -> Hashable:
    return task.namespace, tuple(sorted(task.pod.metadata.labels.items()))


def _task(task: Task) -> Hashable:
    return task.key


_KEYS: dict[DependsOn, KeyOfTask | None] = {DependsOn.SHAPE: None, DependsOn.LABELS: _labels, DependsOn.TASK: _task}


class Scope(Enum):
    """What a filter or score depends on, and so when it must be computed again."""

    STATIC = "static"  # the task (see `DependsOn`) and the node object: computed once per session
    NODE = "node"  # also the tasks on that node: again for nodes that changed
    CLUSTER = "cluster"  # also tasks elsewhere: again for all nodes after any change


class Horizon(IntEnum):
    """Which tasks count as neighbours when a filter or score is computed. Each looks further ahead than the last."""

    NOW = 0  # all that are on nodes
    RELEASED = 1  # terminating ones are gone
    PLANNED = 2  # and those with a reserved or conditional place have started there
    DRAINED = 3  # and those of other jobs that end by themselves are gone


NodeFilter = Callable[[Rows], ReasonIds]
"""For each of these rows: 0 if the node can run the task, else an id from `Session.node_reason`."""
NodeScore = Callable[[Rows], Scores]
"""For each of these rows: how good the node is for the task; more is better."""
KeysOfTasks = Callable[[Sequence[Task]], Collection[Hashable]]


class RemainingCount(Protocol):
    """How many more tasks of a kind each node takes, whatever room it has."""

    def at_least(self, rows: Rows) -> Rows:
        """A bound that takes no time: often it is clear that there is enough. It follows from the amounts in the row of
        a node. The filter does not reject nodes that take at least one."""
        ...

    def exactly(self, rows: Rows) -> Rows: ...


@dataclass(frozen=True, slots=True)
class FilterHook:
    prepare: Callable[[Task], NodeFilter | None]  # None: does not apply to this task
    scope: Scope
    key: KeyOfTask | None  # what the answer depends on besides the shape
    # The key may change during a session; it is that of the job and its nomination. While this returns the same, only
    # nominations change it.
    live: Callable[[], Hashable] | None = None
    owner: str = ""  # the plugin or feature that registered it
    remaining: Callable[[Task], RemainingCount | None] | None = None  # how many more such tasks a node takes
    keyed: Callable[[Shape], bool] | None = None  # which shapes have a key; None: all
    keys: KeysOfTasks | None = None  # the distinct keys of many tasks


@dataclass(frozen=True, slots=True)
class ScoreHook:
    prepare: Callable[[Task], NodeScore | None]
    scope: Scope
    key: KeyOfTask | None
    keyed: Callable[[Shape], bool] | None = None  # which shapes have a key; None: all
    keys: KeysOfTasks | None = None  # the distinct keys of many tasks


@dataclass(frozen=True, slots=True)
class ResourceScore:
    """Scores that follow from amounts alone. The kernels compute these again after each placement in a gang;
    everything else is a `NodeScore`. The weights of several plugins are added up."""

    least: float = 0.0  # the more CPU and memory stay free, the better (0..100 times this)
    most: float = 0.0  # the less stays free, the better
    balanced: float = 0.0  # the more evenly CPU, memory and GPUs are used, the better
    pack: float = 0.0  # binpack: the fuller by the weights below, the better
    pack_weights: tuple[tuple[str, float], ...] = ()  # resource name -> weight


@dataclass(frozen=True, slots=True)
class NamespaceShares:
    """How the shares of namespaces are measured: the share of an amount (in units of 1/`one` of the cluster), and the
    weight of a namespace. Compare shares divided by weights."""

    share: Callable[[Vector], int]
    one: int
    weight: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Why a filter rejects a node. `resolvable`: could evicting pods from the node help?"""

    code: str
    text: str
    resolvable: bool


JobOrder = Callable[[Job], OrderKey]
QueueOrder = Callable[[Queue], OrderKey]
QueuePath = Sequence[tuple[str, Callable[[], OrderKey]]]
"""The steps from the top of a tree of queues down to a queue: the name of each, and its key at this moment."""
NamespaceOrder = Callable[[Queue, str], OrderKey]
TaskOrder = Callable[[Task], OrderKey]
RoomAdjustment = Callable[[Matrix, Job | None], Matrix]
"""(room by row, job): the part of it that the job may use."""
DomainScore = Callable[[Tree, Rows, Sequence[tuple[Task, int]]], Scores]
"""(tree, indices of domains of one tier, tasks that are alike and how many there are): higher is better."""


@dataclass(frozen=True, slots=True)
class Concession:
    """Room on a node that is free as soon as its owner gives way. Those of lower rank go first."""

    row: int
    rank: Any
    amount: Vector
    carry_out: Callable[[Any, Task], Any]  # (statement, task); returns the operation


VictimQueueOrder = Callable[[Queue, Queue], OrderKey]  # (victim's queue, preemptor's queue)
Allocatable = Callable[[Queue, Vector, Vector | None, bool], Refusal | None]
"""(queue, request, credit, lending): may the queue take this much more? `credit` is what the placement would return.
With `lending` only hard limits count: the resources would stay idle otherwise."""
DeservedAmounts = Callable[[Queue, Mapping[QueueName, Vector]], Sequence[int]]
"""(queue, less): what the queue deserves, by column, if queues request so much less than when the session began."""
Preemptive = Callable[[Queue, Vector, Vector | None], Refusal | None]
JobVote = Callable[[Job], Vote | Refusal]  # a refusal is a reject that says why
AllAtOnce = Callable[[Mapping[QueueName, list[int]]], bool]
"""(minimums): could so much more be promised in each of these queues? Amounts by column."""
VictimVerdict = Callable[[Task, Task, bool], Verdict]
"""(evictor, candidate, whole): may the candidate be evicted? `whole`: together with its whole gang."""
PerNodeFilter = Callable[[Task, Node], str | None]
PerNodeScore = Callable[[Task, Node], float]
Handler = Callable[[Task], None]  # may raise `Objection` on allocate: the operation is rolled back
BestNode = Callable[[Task, Rows, Scores], int | None]


class Objection(Exception):
    """Raised by an allocate handler that cannot accept the placement."""
