"""Why a group cannot start whose pods must be close together, or that has sub-groups.

Whether it fits is tried with the whole group, as in `gang_fit`. If it does not, the sentence is about the domain that
comes closest, or about the first sub-group that cannot be whole. Counts of all nodes would mislead: they may have room
for every pod, and no domain for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stromboli.cluster import Job, Status, Task, TaskKey
from stromboli.cluster.topology import Closeness, Domain, SubGroup, SubGroupPolicy, sub_groups
from stromboli.scheduling.decisions import Explanation
from stromboli.scheduling.explanation import Code, gang_reasons, topology_reasons
from stromboli.scheduling.gang import (
    PLACED,
    WaitingTasks,
    complete_with_best_effort,
    lacking_groups,
    missing_members,
    needed_groups,
    next_groups,
    place_gang,
    place_on_open_nodes,
    placed_rows,
    waiting_members,
    whole_groups,
)
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import ALLOCATE, Statement
from stromboli.scheduling.topology import Wanted, allowed_tiers, domains_to_try, tree_for

from .closest_domain import Closest, closest_domain, lack_of, most_when_empty
from .gang_fit import gang_fit
from .node_survey import NodeSurvey, NodeSurveys


@dataclass(frozen=True, slots=True)
class CloseFit:
    explanation: Explanation
    fit: int  # how many of the pods that must start together have room
    survey: NodeSurvey
    never: str = ""


def asks_for_domains(job: Job) -> bool:
    """Whether it may wait although all of its pods have room. A soft group may not: it goes anywhere first."""
    layout = job.layout
    return layout is not None and (bool(layout.policies) or (layout.closeness is not None and layout.closeness.hard))


def without_domains(session: Session, job: Job) -> Explanation | None:
    """If there is no domain that a group, or a sub-group that it needs, may be in."""
    layout = job.layout
    if layout is None:
        return None
    for closeness in (layout.closeness, *(policy.closeness for policy in layout.policies if policy.least)):
        if closeness is None or not closeness.hard:
            continue
        tree = tree_for(session, closeness)
        if not allowed_tiers(tree, closeness):
            hyper_nodes = session.snapshot.topology.has_hyper_nodes
            said = topology_reasons.without_domains(closeness, tree, hyper_nodes=hyper_nodes)
            return Explanation(Code.NO_DOMAIN, said)
    return None


def close_fit(session: Session, surveys: NodeSurveys, job: Job, tasks: Sequence[Task], missing: int) -> CloseFit | None:
    """None if the group fits, or only pods that do not exist are in the way. `tasks`: all that may be placed, in
    order; `missing`: how many of them must be."""
    if _fits(session, job, tasks):
        return None
    return _Search(session, surveys, job, tasks, missing).run()


def _fits(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    before, was_ready = session.notes.of(job), session.job_ready(job)
    statement = session.statement()
    place_gang(session, statement, job, deque(t for t in tasks if not t.best_effort), lending=True, conditionally=False)
    fits = session.job_ready(job) and complete_with_best_effort(session, statement, job)
    fits = fits and (not was_ready or len(statement) > 0)
    statement.discard()
    session.notes.recall(job, before)
    return fits


class _Search:
    def __init__(self, session: Session, surveys: NodeSurveys, job: Job, tasks: Sequence[Task], missing: int) -> None:
        self._session = session
        self._surveys = surveys
        self._job = job
        self._tasks = tasks
        self._line = WaitingTasks(job, tasks)
        self._missing = min(missing, len(tasks))
        assert job.layout is not None
        self._closeness = job.layout.closeness
        self._policies = job.layout.policies
        self._running = [whole_groups(job, policy) for policy in self._policies]

    def run(self) -> CloseFit | None:
        closeness, domain = self._closeness, None
        if closeness is not None and closeness.hard:
            placed = placed_rows(self._job.tasks.values())
            closest = closest_domain(self._session, closeness, self._tasks, self._missing, placed)
            if closest is None:
                return None
            domain = closest.domain
            found = self._in_domain(closeness, closest)
            if found is not None:
                return found
        if self._policies:
            with self._session.inside(domain):
                return self._of_sub_groups()
        return None

    def _in_domain(self, closeness: Closeness, closest: Closest) -> CloseFit | None:
        """None if all of them have room there."""
        session, needed = self._session, self._missing
        with session.inside(closest.domain):
            fit, survey = gang_fit(session, self._surveys, self._job, self._tasks, needed)
        if fit >= needed:
            return None
        lack = lack_of(session, closest.domain, self._tasks[:needed])
        never = ""
        if closest.is_home:
            runs = session.job_ready(self._job)
            said = topology_reasons.no_room_at_home(closest.domain, fit, needed, lack, runs=runs)
        else:
            never = self._never(closeness, self._tasks, needed)
            said = topology_reasons.no_room(closeness, closest.domain, fit, needed, lack, never=bool(never))
        return CloseFit(Explanation(Code.DOMAIN_SHORT, said + _nodes(survey, fit)), fit, survey, never)

    def _never(self, closeness: Closeness, tasks: Sequence[Task], needed: int) -> str:
        kinds = self._session.placement.kinds(tasks)
        most = most_when_empty(self._session, closeness, tasks, needed)
        if most >= needed or not all(first.shape.unoffered == () for first, _ in kinds):
            return ""
        return topology_reasons.never_in_a_domain(closeness, needed, most if len(kinds) == 1 else None)

    # -- sub-groups -------------------------------------------------------------------------------------------------

    def _of_sub_groups(self) -> CloseFit | None:
        """As many sub-groups as fit are placed, and taken away again; the first that does not is the reason."""
        session, job = self._session, self._job
        before, statement = session.notes.of(job), session.statement()
        fit: dict[int, int] = {}
        found: CloseFit | None = None
        for group in needed_groups(job, self._line):
            if not self._place(statement, group):
                found = self._short(group, fit.get(id(group.policy), 0), statement)
                break
            fit[id(group.policy)] = fit.get(id(group.policy), 0) + 1
        else:
            found = self._gated(fit) or self._of_others(statement)
        statement.discard()
        session.notes.recall(job, before)
        return found

    def _place(self, statement: Statement, group: SubGroup) -> bool:
        session, before = self._session, len(statement)
        tasks = self._lacking(group)
        for domain in self._domains(group, tasks):
            with session.inside(domain):
                place_on_open_nodes(
                    session, statement, self._job, deque(tasks), lending=True, conditionally=False, together=len(tasks)
                )
            if all(task.status in PLACED for task in tasks):
                return True
            statement.discard(down_to=before)
        return False

    def _lacking(self, group: SubGroup) -> list[Task]:
        return waiting_members(group, self._line)[: missing_members(group)]

    def _domains(self, group: SubGroup, tasks: Sequence[Task]) -> list[Domain | None]:
        session, closeness = self._session, group.policy.closeness
        if closeness is None or not closeness.hard:
            return [session.domain]
        wanted = Wanted(session.placement.kinds(tasks), len(tasks), placed_rows(group.tasks))
        return [*domains_to_try(session, closeness, wanted, session.placement.room_now(self._job))]

    def _short(self, group: SubGroup, fit: int, statement: Statement) -> CloseFit:
        session, tasks, closeness = self._session, self._lacking(group), group.policy.closeness
        needed, is_next = len(tasks), len(statement) > 0
        domain = session.domain
        never = ""
        if closeness is not None and closeness.hard:
            closest = closest_domain(session, closeness, tasks, needed, placed_rows(group.tasks))
            if closest is not None:
                domain = closest.domain
                never = "" if closest.is_home else self._never(closeness, tasks, needed)
        with session.inside(domain):
            have, survey = gang_fit(session, self._surveys, self._job, tasks, needed)
        hard = None if closeness is None or not closeness.hard else closeness
        why = topology_reasons.sub_group_short(group, hard, domain, have, needed, is_next=is_next)
        # Nodes are counted without those that were placed here.
        counted = "" if is_next else _nodes(survey, have)
        placed = sum(operation.kind is ALLOCATE for operation in statement.operations)
        return CloseFit(self._said(group.policy, fit, why + counted), placed + have, survey, never)

    def _gated(self, fit: dict[int, int]) -> CloseFit | None:
        """All sub-groups fit that have their pods. Those that are needed besides have pods that may not be placed."""
        for policy in self._policies:
            if lacking_groups(self._job, policy) > 0:
                why = gang_reasons.some_gated(self._job.gated) if self._job.gated else ""
                survey = self._surveys.of(self._tasks[0])
                return CloseFit(self._said(policy, fit.get(id(policy), 0), why), 0, survey)
        return None

    def _of_others(self, statement: Statement) -> CloseFit | None:
        """No policy needs more sub-groups. Pods that wait are in others, which the group may need for its minimum."""
        session, job = self._session, self._job
        if self._line.of(None):
            return None
        was_ready = session.job_ready(job)
        for policy in self._policies:
            for group in next_groups(job, policy, self._line):
                if not self._place(statement, group):
                    return self._short(group, 0, statement)
                if was_ready or session.job_ready(job):
                    return None
        for group in self._line.groups:
            if 0 < len(waiting_members(group, self._line)) < missing_members(group):
                said = topology_reasons.incomplete_sub_group(group)
                return CloseFit(Explanation(Code.NOT_ENOUGH_SUB_GROUPS, said), 0, self._surveys.of(self._tasks[0]))
        return None

    def _said(self, policy: SubGroupPolicy, fit: int, why: str) -> Explanation:
        if not lacking_groups(self._job, policy):
            return Explanation(Code.SUB_GROUP_SHORT, why)
        running = self._running[self._policies.index(policy)]
        return Explanation(Code.SUB_GROUP_SHORT, topology_reasons.sub_groups_short(policy, running, fit, why).rstrip())


def _nodes(survey: NodeSurvey, fit: int) -> str:
    """Nothing, if no node is the reason, but only that there are too few."""
    return f" {survey.sentence(gang=fit > 0)}" if survey.counts or survey.for_the_next else ""


def unclear(job: Job) -> dict[TaskKey, Explanation]:
    """The pods that wait and may not start, because it is not clear which sub-group they are in, or because their group
    has too few."""
    if job.layout is None:
        return {}
    refused, incomplete = sub_groups(job).refused, sub_groups(job).incomplete
    return {
        key: Explanation(Code.NOT_ENOUGH_PODS if key in incomplete else Code.SUB_GROUP_UNCLEAR, refused[key])
        for key in sorted(refused)
        if job.tasks[key].status is Status.PENDING
    }
