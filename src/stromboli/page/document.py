"""The document that pictures are drawn from: one JSON format for the report and the page.

Times are seconds: since the start of the run in a simulation, since 1970 on a cluster (`clock` says which). Amounts are
integers, millicores for CPU and whole units for everything else. A share is a part of the cluster between 0 and 1, in
the resource where that part is largest.

Everything that can appear and disappear on a live page is a row with a key of its own, so that the server can send
changed rows only.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec
from msgspec import field

Amounts = dict[str, int]
Clock = Literal["virtual", "wall"]
JobState = Literal["waiting", "running", "succeeded", "failed", "gone"]


class ResourceSeries(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    used: list[float]
    capacity: list[float]


class Series(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Values over time. Each value holds from its time to the next; `times` is shared by all."""

    times: list[float] = field(default_factory=list)
    resources: dict[str, ResourceSeries] = field(default_factory=dict)
    waiting_pods: list[float] = field(default_factory=list)
    waiting_jobs: list[float] = field(default_factory=list)
    queues: dict[str, list[float]] = field(default_factory=dict)
    """The share of each queue."""
    namespaces: dict[str, list[float]] = field(default_factory=dict)
    """The share of each namespace in a queue; the name is "queue/namespace"."""


class QueueRow(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    name: str
    state: str = "Open"
    parent: str = ""
    weight: int = 1
    allocated: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    borrowed: Amounts = field(default_factory=dict)
    lent: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    locked: list[str] = field(default_factory=list)
    share: float = 0.0
    deserved_share: float = 0.0
    running: int = 0
    waiting: int = 0
    """Jobs, not pods."""


class NamespaceRow(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    key: str
    """The queue and the namespace: "queue/namespace"."""
    weight: int = 1
    allocated: Amounts = field(default_factory=dict)
    share: float = 0.0


class JobRow(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    key: str
    """The namespace and the name that users know: that of the owner, if pods or groups were created for it."""
    kind: str = "PodGroup"
    group: str = ""
    """The key of its PodGroup."""
    queue: str
    phase: str
    state: JobState
    submitted: float
    admitted: float | None = None
    started: float | None = None
    ended: float | None = None
    expected_start: float | None = None
    expected_end: float | None = None
    """If everything goes on as it is, and nobody submits more."""
    waited: float | None = None
    """None: it waits since its submission."""
    minimum: int = 1
    pods: dict[str, int] = field(default_factory=dict)
    requests: Amounts = field(default_factory=dict)
    """Of all its pods together."""
    runs: list[tuple[float, float | None]] = field(default_factory=list)
    """When at least one of its pods was on a node. The last one may not have ended."""
    evictions: int = 0
    reason: str = ""
    message: str = ""
    notes: list[str] = field(default_factory=list)
    """What else is known about why it waits."""


class NodeRow(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    name: str
    allocatable: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    """By pods, those on lent resources as well."""
    backfilled: Amounts = field(default_factory=dict)
    """The part of `used` that is lent."""
    reserved: Amounts = field(default_factory=dict)
    held: Amounts = field(default_factory=dict)
    reserved_for: list[str] = field(default_factory=list)
    promised: Amounts = field(default_factory=dict)
    """Kept for jobs that pods leave for."""
    promised_to: list[str] = field(default_factory=list)
    locked_by: str = ""
    available: bool = True
    """Ready, and not cordoned."""
    pods: int = 0
    domains: dict[str, str] = field(default_factory=dict)
    """Which it is in, by the name of the tier, from the lowest."""


class Span(msgspec.Struct, array_like=True, frozen=True):
    """A pod on a node. There may be many, so a span is an array and not an object."""

    key: str
    """Unique: the uid of the pod, or a number."""
    pod: str
    job: str
    node: str
    start: float
    end: float | None
    outcome: str
    """Running, Succeeded, Failed, Evicted or Deleted."""
    backfill: bool
    amounts: Amounts


class Mark(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A time in which a node was kept for somebody."""

    key: str
    node: str
    kind: Literal["reserved", "locked", "held"]
    owner: str
    start: float
    end: float | None = None


class Eviction(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    key: str
    time: float
    pod: str
    job: str = ""
    queue: str = ""
    node: str = ""
    reason: str = ""
    message: str = ""


class Migration(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One pod that moves from a node to a node. The last four are the parts of the two nodes that were used before and
    after, in the resource where that part is largest."""

    key: str
    job: str
    pod: str
    source: str
    target: str
    phase: str
    reason: str = ""
    message: str = ""
    planned: float
    ended: float | None = None
    source_before: float = 0.0
    source_after: float = 0.0
    target_before: float = 0.0
    target_after: float = 0.0


class Document(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    title: str
    clock: Clock
    start: float
    end: float
    """The end of a run, or now."""
    live: bool = False
    facts: list[tuple[str, str]] = field(default_factory=list)
    """Names and values that stand at the top."""
    resources: list[str] = field(default_factory=list)
    series: Series = field(default_factory=Series)
    queues: list[QueueRow] = field(default_factory=list)
    namespaces: list[NamespaceRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    migrations: list[Migration] = field(default_factory=list)


_DIRECTIONS: Final = re.compile(rb"\xe2\x80([\x8e\x8f\xaa-\xae])|\xe2\x81([\xa6-\xa9])")


def encode_document(document: Document) -> bytes:
    return encode_json(document)


def encode_json(value: object) -> bytes:
    """JSON for a browser. Signs that turn around the text after them are shown as `\\u202e`: a name must not change how
    what stands beside it is read."""
    return _DIRECTIONS.sub(_escaped, msgspec.json.encode(value))


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\\\u%04x" % ord(found[0].decode())
