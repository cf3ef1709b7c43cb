"""The words plugins answer with, and how the answers of several plugins become one.

Orders are sort keys, not comparators: a key is computed once per push, and the keys of several plugins simply form a
tuple. Filters and scores speak about many nodes at once (arrays over rows); a plugin that only knows single nodes
registers a per-node function, which works and is slower.

How answers combine (tiers from the top, plugins in the order of the file):

    order keys          a tuple of all keys, then creation time, then name
    filters             a node is out at the first filter that rejects it, and that filter gives the reason
    scores              summed
    overused            any
    allocatable, preemptive, jobReady            all; the first refusal is the reason
    jobPipelined, jobEnqueueable                 votes: a reject anywhere wins; a tier with a permit decides
    jobValid            the first refusal
    jobStarving         all, in the first tier that has a say
    preemptable, reclaimable                     see `Verdict`
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Job, Matrix, Node, Queue, Task, Vector

Rows = npt.NDArray[np.int64]
ReasonIds = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]

OrderKey = Any  # anything that compares with others of its plugin: a number, a string, a tuple of those


class Vote(IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Verdict(IntEnum):
    """What a plugin says of evicting one candidate for one task.

    Protecting plugins (gang, conformance, pdb) say NO or NOTHING, and each of them is asked: one NO spares the
    candidate. Permitting plugins (priority and drf in preempt; proportion and capacity in reclaim) are asked tier by
    tier: the first tier with a word on the candidate decides, and a NO beats a YES inside it. No YES, no victim.
    Verdicts are about the session as it stands, with the victims chosen so far already evicted in the statement.
    """

    NO = -1
    NOTHING = 0
    YES = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, with its numbers. `code` is one of reasons.py; amounts are in the unit of `resource`."""

    code: str
    resource: str = ""
    need: int = 0
    have: int = 0
    total: int = 0
    subject: str = ""  # the queue, namespace, role … that refuses
    kept: int = 0  # what is kept for another job, beside what the queue has


class Scope(Enum):
    """What a filter or score depends on, and so when it has to be asked again."""

    STATIC = "static"  # the task's shape and the node's own facts: asked once per session
    NODE = "node"  # also the tasks on that node: asked again for nodes that changed
    CLUSTER = "cluster"  # also tasks elsewhere: asked again for all nodes after any change


NodeFilter = Callable[[Rows], ReasonIds]
"""For each of these rows: 0 if the node may take the task, else an id from `Session.node_reason`."""
NodeScore = Callable[[Rows], Scores]
"""For each of these rows: how good the node is for the task; more is better."""
KeyOfTask = Callable[[Task], Hashable]


@dataclass(frozen=True, slots=True)
class FilterHook:
    prepare: Callable[[Task], NodeFilter | None]  # None: has nothing to say about this task
    scope: Scope
    key: KeyOfTask | None  # what, beside the shape, the answer depends on
    live: bool = False  # the key of a task may change during a session
    owner: str = ""  # the plugin or feature that registered it


@dataclass(frozen=True, slots=True)
class ScoreHook:
    prepare: Callable[[Task], NodeScore | None]
    scope: Scope
    key: KeyOfTask | None


@dataclass(frozen=True, slots=True)
class ResourceScore:
    """Scores that follow from amounts alone. The kernels know these and keep them current while they place a gang;
    everything else is a `NodeScore`. Weights add up over plugins."""

    least: float = 0.0  # the more CPU and memory stays free, the better (0..100 times this)
    most: float = 0.0  # the less stays free, the better
    balanced: float = 0.0  # the more even CPU, memory and GPUs are used, the better
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
class Hook:
    """A registered callback and where it stands."""

    tier: int
    plugin: str
    call: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Why a filter turned nodes away. `resolvable`: could evicting pods from the node help?"""

    code: str
    text: str
    resolvable: bool


JobOrder = Callable[[Job], OrderKey]
QueueOrder = Callable[[Queue], OrderKey]
NamespaceOrder = Callable[[Queue, str], OrderKey]
TaskOrder = Callable[[Task], OrderKey]
JobAllocatable = Callable[[Job, Vector, Vector | None], Refusal | None]
"""(job, request, credit): may this job take so much more in its queue?"""
Displacement = Callable[[Job, bool], list[Callable[[Any], None]]]
"""(job, evicting): what may be given up in favour of the job, also if pods are evicted for it; each takes a statement
and gives it up there."""
RoomAdjustment = Callable[[Matrix, Job | None], Matrix]
"""(room by row, job): what of it the job may use."""
VictimQueueOrder = Callable[[Queue, Queue], OrderKey]  # (victim's queue, preemptor's queue)
Allocatable = Callable[[Queue, Vector, Vector | None, bool], Refusal | None]
"""(queue, request, credit, lending): may the queue take this much more? `credit` is what the placement would give
back; with `lending` only hard limits count, for room that nobody else can use."""
Preemptive = Callable[[Queue, Vector, Vector | None], Refusal | None]
JobVote = Callable[[Job], Vote | Refusal]  # a refusal is a reject that says why
VictimVerdict = Callable[[Task, Task, bool], Verdict]
"""(evictor, candidate, whole): may the candidate go? `whole`: all of its gang goes with it."""
PerNodeFilter = Callable[[Task, Node], str | None]
PerNodeScore = Callable[[Task, Node], float]
Handler = Callable[[Task], None]  # may raise `Objection` on allocate: the operation is rolled back
BestNode = Callable[[Task, Rows, Scores], int | None]


class Objection(Exception):
    """Raised by an allocate handler that cannot accept the placement."""
