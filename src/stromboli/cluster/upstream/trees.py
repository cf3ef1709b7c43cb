"""Composite groups, divided into jobs.

A composite needs so many of its children at once (`minGroupCount`), each with as many pods as that child needs. The
scheduler knows one unit that starts as a whole, the job. So those children are one job, and each of them is a role of
it, with a minimum of its own. The other children are jobs of their own and may start after that one has.

Which children these are follows from the pods: those that run, then those whose pods exist, then the smallest, then by
name. A child may be a composite, too, down to four levels. The groups of a composite whose policy is `basic` are on
their own, unless it must start with others: then one of them does.

All groups of a composite that must be in one domain, or that is disrupted whole, are in one job: the others, too, which
it does not need to start. Each of those is a sub-group that starts whole or not at all (`parts`). So is each group that
must be in a domain of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from stromboli.api.upstream import Part, UpstreamGroup, plain_name

from ..model import JobKey

MAX_DEPTH: Final = 4

Trouble = Literal["", "invalid", "missing", "incomplete", "later"]
"""Why a job is not considered: it is wrong by itself; a group is missing; it has too few groups; others go first."""


class Members(NamedTuple):
    """The pods of a group."""

    placed: int  # those that have a node, or have succeeded
    all: int  # with those that may get one


@dataclass(slots=True)
class Plan:
    """A job."""

    job: JobKey
    top: UpstreamGroup  # the group that the job is, or the composite whose groups it has
    root: JobKey  # the composite above all
    leaves: dict[JobKey, UpstreamGroup] = field(default_factory=dict)  # those that it needs to start
    others: dict[JobKey, UpstreamGroup] = field(default_factory=dict)  # those that it can do without
    parts: list[Part] = field(default_factory=list)
    goes_whole: bool = False
    trouble: Trouble = ""
    why: str = ""

    @property
    def least(self) -> int:
        return sum(leaf.least for leaf in self.leaves.values())


NO_PLANS: Final[Mapping[JobKey, Plan]] = {}


def plans_of(groups: Mapping[JobKey, UpstreamGroup], members: Callable[[JobKey], Members]) -> dict[JobKey, Plan]:
    """The job of each group that is in a tree, by the key of the group."""
    return _Trees(groups, members).plans()


class _Trees:
    def __init__(self, groups: Mapping[JobKey, UpstreamGroup], members: Callable[[JobKey], Members]) -> None:
        self._groups = groups
        self._members = members
        self._children: dict[JobKey, list[JobKey]] = {}
        self._plans: dict[JobKey, Plan] = {}
        self._ends: dict[JobKey, tuple[JobKey, JobKey | None]] = {}  # of groups that hang on nothing
        for key in sorted(groups):
            if groups[key].parent:
                self._children.setdefault(JobKey(groups[key].parent), []).append(key)

    def plans(self) -> dict[JobKey, Plan]:
        for key in sorted(self._groups):
            group = self._groups[key]
            if group.is_composite and not group.parent:
                self._start(key, key, depth=1)
        for key in sorted(self._groups):  # the rest hangs on nothing, or in a circle
            group = self._groups[key]
            if group.parent and key not in self._plans:
                self._plans[key] = self._without_root(key, group)
        return self._plans

    def _start(self, key: JobKey, root: JobKey, *, depth: int, after: Plan | None = None) -> None:
        """A group that may start by itself; `after`: once this job has started."""
        group = self._groups[key]
        if group.is_composite and group.is_basic and not _stays_together(group):
            self._plans[key] = Plan(key, group, root)
            if self._too_deep(key, root, depth):
                return
            for child in self._children.get(key, []):
                self._start(child, root, depth=depth + 1, after=after)
            return
        plan = Plan(key, group, root)
        if after is not None and not self._has_started(after):
            plan.trouble, plan.why = "later", _later(after.top)
        self._add(plan, key, depth)
        if not plan.leaves and not plan.trouble:
            plan.trouble, plan.why = "incomplete", _too_few(group, 0)

    def _add(self, plan: Plan, key: JobKey, depth: int) -> None:
        """The group must start together with the others of this job."""
        group = self._groups[key]
        self._plans[key] = plan
        plan.goes_whole = plan.goes_whole or group.goes_whole
        if group.topology_key and group is not plan.top:
            self._add_part(plan, key, group.topology_key)
        if not group.is_composite:
            plan.leaves[key] = group
            return
        if self._too_deep(key, plan.root, depth):
            plan.trouble, plan.why = "invalid", self._plans[key].why
            return
        children = sorted(self._children.get(key, []), key=self._rank)
        if len(children) < group.least and not plan.trouble:
            plan.trouble, plan.why = "incomplete", _too_few(group, len(children))
        for child in children[: group.least]:
            self._add(plan, child, depth + 1)
        for child in children[group.least :]:
            if _stays_together(group):
                self._add_other(plan, child)
            else:
                self._start(child, plan.root, depth=depth + 1, after=plan)

    def _add_other(self, plan: Plan, key: JobKey) -> None:
        """The job can do without this group, but it must be where the others are."""
        if self._is_incomplete(key):
            why = _too_few(
                self._groups[key], sum(self._state(child, MAX_DEPTH)[1] for child in self._children.get(key, ()))
            )
            for below in (key, *self._below(key)):
                self._plans[below] = Plan(key, self._groups[key], plan.root, trouble="incomplete", why=why)
            return
        for below in (key, *self._below(key)):
            self._plans[below] = plan
            if not self._groups[below].is_composite:
                plan.others[below] = self._groups[below]
            plan.goes_whole = plan.goes_whole or self._groups[below].goes_whole
        self._add_part(plan, key, self._groups[key].topology_key, needed=False)

    def _is_incomplete(self, key: JobKey) -> bool:
        """Whether it is a composite with too few groups that have all the pods they need, and nothing of it runs."""
        return (
            self._groups[key].is_composite
            and not self._state(key, MAX_DEPTH)[1]
            and not any(self._members(below).placed for below in self._below(key))
        )

    def _add_part(self, plan: Plan, key: JobKey, topology_key: str, *, needed: bool = True) -> None:
        below = [key, *self._below(key)]
        inner = next((one for one in below[1:] if self._groups[one].topology_key), None)
        if inner is not None:
            plan.trouble, plan.why = "invalid", _two_constraints(self._groups[inner], self._groups[key])
        leaves = [self._groups[one] for one in below if not self._groups[one].is_composite]
        if leaves:
            named = tuple(sorted((leaf.original.metadata.name, leaf.least) for leaf in leaves))
            written = self._groups[key].original
            plan.parts.append(Part(f"{written.kind} {written.metadata.name}", named, topology_key, needed))

    def _too_deep(self, key: JobKey, root: JobKey, depth: int) -> bool:
        if depth < MAX_DEPTH or not self._children.get(key):
            return False
        why = (
            f"The tree of groups below {_name(self._groups[root])} has more than {MAX_DEPTH} levels. Put the groups "
            f"below {_name(self._groups[key])} further up."
        )
        for below in (key, *self._below(key)):
            self._plans[below] = Plan(below, self._groups[below], root, trouble="invalid", why=why)
        return True

    def _below(self, key: JobKey) -> Iterator[JobKey]:
        left = list(self._children.get(key, []))
        while left:  # as deep as somebody has made it
            child = left.pop()
            yield child
            left += self._children.get(child, [])

    def _rank(self, key: JobKey) -> tuple[bool, bool, int, JobKey]:
        placed, whole, size = self._state(key, MAX_DEPTH)
        return (not placed, not whole, size, key)

    def _state(self, key: JobKey, depth: int) -> tuple[bool, bool, int]:
        """Whether as much of it runs as must, whether the pods for that exist, and how many these are."""
        group = self._groups[key]
        if not group.is_composite:
            placed, all_ = self._members(key)
            return placed >= group.least, all_ >= group.least, group.least
        found = sorted(
            (self._state(child, depth - 1) for child in self._children.get(key, ()) if depth),
            key=lambda state: (not state[0], not state[1], state[2]),
        )
        needed = found[: group.least]
        enough = len(needed) == group.least
        return (
            enough and all(state[0] for state in needed),
            enough and all(state[1] for state in needed),
            sum(state[2] for state in needed),
        )

    def _has_started(self, plan: Plan) -> bool:
        return bool(plan.leaves) and all(self._members(key).placed >= leaf.least for key, leaf in plan.leaves.items())

    def _without_root(self, key: JobKey, group: UpstreamGroup) -> Plan:
        end, parent = self._end_of(key)
        if parent is None:
            why = (
                f"{_name(self._groups[end])} is a parent of itself, over parentCompositePodGroupName. Create the "
                "groups anew without the circle."
            )
            return Plan(key, group, end, trouble="invalid", why=why)
        why = (
            f"CompositePodGroup {plain_name(parent)}, the parent of {_name(self._groups[end])}, does not exist; create "
            "it."
        )
        return Plan(key, group, parent, trouble="missing", why=why)

    def _end_of(self, key: JobKey) -> tuple[JobKey, JobKey | None]:
        """The last group above this one, and the parent that it misses; or where the way up leads into a circle.
        Remembered for all groups on the way: there may be thousands, one above the other."""
        way: dict[JobKey, None] = {}
        at = key
        while at in self._groups and at not in self._ends and at not in way:
            way[at] = None
            at = JobKey(self._groups[at].parent)
        if at in way:
            circle = list(way)[list(way).index(at) :]
            self._ends |= {one: (one, None) for one in circle}
        elif at not in self._ends:
            self._ends |= dict.fromkeys(way, (list(way)[-1], at))
        self._ends |= {one: self._ends[at] for one in way if one not in self._ends}
        return self._ends[key]


def _stays_together(composite: UpstreamGroup) -> bool:
    """Whether what becomes of one of its groups, from the first pod on, concerns all of them."""
    return bool(composite.topology_key) or composite.goes_whole


def _name(group: UpstreamGroup) -> str:
    kind = group.original.kind
    return f"{kind} {group.metadata.namespace}/{group.original.metadata.name}"


def _too_few(group: UpstreamGroup, found: int) -> str:
    return (
        f"{_name(group)} needs {group.least} groups to start, and has {found}. Create the others, or lower "
        "minGroupCount."
    )


def _two_constraints(inner: UpstreamGroup, outer: UpstreamGroup) -> str:
    return (
        f"{_name(inner)} has a topology constraint, and {_name(outer)} above it, which starts together with others, "
        "has one, too. Only one of the two can be kept; create one of them without."
    )


def _later(top: UpstreamGroup) -> str:
    return f"The group starts after the {top.least} groups that {_name(top)} needs to start."
