"""Why one job waits, with all that is known about it.

One cycle runs on a copy of the cluster. Everything here is read from that session before it is closed, where the code
that decided left it: the refusals of queues, the counts of nodes, the order of the walk, the places that are reserved
or promised. Nothing is derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from stromboli.api import Job as JobObject
from stromboli.api.timestamps import format_timestamp
from stromboli.api.upstream import COMPOSITE_SUFFIX, SUFFIX
from stromboli.cluster import OCCUPYING, UNOFFERED, Cluster, Job, JobKey, Node, Status, TaskKey
from stromboli.scheduling import half_gangs
from stromboli.scheduling.conclusion import Explainer, NodeSurvey, conclude
from stromboli.scheduling.containment import CopiedScheduler
from stromboli.scheduling.cycle import Scheduler, end_actions
from stromboli.scheduling.decisions import Bind, Cycle, Explanation, PatchGroup, PatchPod
from stromboli.scheduling.explanation import Code, gang_reasons, orphans, topology_reasons, waiting_since
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.explanation.next_steps import next_step
from stromboli.scheduling.explanation.reasons import object_warning
from stromboli.scheduling.gang import missing_pods
from stromboli.scheduling.session import Session
from stromboli.scheduling.walk import Walk

from .inspection import State, load, take_picture, with_cycle
from .job_view import name_of
from .picture import Amounts, JobPicture, Picture
from .queue_view import with_unoffered, without_pods

_KEPT = {Status.RESERVED: "reserved", Status.PIPELINED: "promised", Status.CONDITIONAL: "lent"}


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    next_step: str


@dataclass(frozen=True, slots=True)
class NodeCount:
    code: str
    phrase: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """A waiting job of the same queue that goes first."""

    job: str
    because: str


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node on which resources are kept for the job."""

    node: str
    how: str  # reserved: the job has starved; promised: pods are terminating; lent: borrowers must leave
    missing: Amounts  # what is not free there yet
    waits_for: list[str]  # jobs whose pods must leave


@dataclass(frozen=True, slots=True)
class JobExplanation:
    job: JobPicture
    starts_next: bool  # the next cycle starts it
    reasons: list[Reason]  # the dominant one first
    pods_needed: int = 0  # that must start together
    pods_counted: int = 0  # of these, in the next three; the others do not exist yet, or have scheduling gates
    pods_that_fit: int | None = None  # None if it has no pods yet
    needs: Amounts = field(default_factory=dict)  # of these together
    each: Amounts = field(default_factory=dict)  # of the first of them
    free: Amounts = field(default_factory=dict)  # on all nodes that are ready, not cordoned, and not locked for others
    largest: Amounts = field(default_factory=dict)  # of it on one node
    nodes: int = 0
    available: int = 0  # nodes with room for a pod of it
    node_counts: list[NodeCount] = field(default_factory=list)  # the others
    position: int = 0  # in its queue, from 1; 0 if it does not wait
    queue_length: int = 0
    ahead: list[Ahead] = field(default_factory=list)
    kept: list[KeptNode] = field(default_factory=list)

    @property
    def dominant(self) -> str:
        return self.reasons[0].code if self.reasons else ""

    @property
    def next_step(self) -> str:
        """About the dominant reason, unless gangs wait for each other or for a domain that is too small: then to wait
        for what it names is in vain."""
        in_vain = [reason for reason in self.reasons if reason.code in (half_gangs.REASON, half_gangs.OUTGROWN)]
        return next((reason.next_step for reason in [*in_vain, *self.reasons]), "")

    @property
    def waits_for(self) -> list[str]:
        """Jobs that must finish first."""
        return sorted({job for node in self.kept for job in node.waits_for})


def explain(state: State, scheduler: Scheduler, name: str) -> JobExplanation | None:
    """`name`: "namespace/name" of what the user created, of its PodGroup, or of one of its pods. None: not found."""
    cluster, _ = load(state)
    jobs = [obj for obj in state.objects if isinstance(obj, JobObject)]
    return explain_on(cluster, scheduler, state.now, name, jobs, copy_again=lambda: load(state)[0])


def explain_on(
    cluster: Cluster,
    scheduler: Scheduler,
    now: float,
    name: str,
    jobs: Sequence[JobObject] = (),
    *,
    copy_again: Callable[[], Cluster] | None = None,
) -> JobExplanation | None:
    """The same on a cluster of the caller's, on which a cycle is run. `copy_again`: makes that cluster
    anew, if somebody can."""
    picture = take_picture(cluster, jobs, now)
    seen = find_job(picture, cluster, name)
    if seen is None:
        return None
    try:
        return _explain_in_session(cluster, scheduler, now, picture, seen)
    except Exception:
        copied = CopiedScheduler(scheduler, copy_again)
        cycle, cluster = copied.run_on(cluster, now)  # puts aside on whom the error happened
        why = cycle.reasons.get(JobKey(seen.group))
        if why is None:
            return JobExplanation(seen, starts_next=seen.waits, reasons=[])
        if why.code == Code.INTERNAL_ERROR:
            told = replace(seen, reason=why.code, message=why.message)
            return JobExplanation(told, starts_next=False, reasons=_ranked(seen, why, ()))
        return _explain_in_session(cluster, scheduler, now, picture, seen)


def _explain_in_session(
    cluster: Cluster, scheduler: Scheduler, now: float, picture: Picture, seen: JobPicture
) -> JobExplanation:
    session = scheduler.open(cluster.snapshot(), now)
    scheduler.act(session)
    end_actions(session)
    job = next((job for job in session.jobs if job.key == seen.group), None)
    beside = _beside(cluster, seen)
    if job is None:
        return _not_considered(seen, cluster, now, beside)
    facts = _facts(session, job, seen)
    conclude(session)
    cycle = session.cycle
    seen = next(one for one in with_cycle(picture, cycle).jobs if one.group == seen.group)
    dominant = cycle.reasons.get(job.key)
    if dominant is None:
        return JobExplanation(seen, starts_next=seen.waits, reasons=[])
    reasons = _ranked(seen, dominant, [*facts.reasons, *beside])
    return replace(facts, job=seen, starts_next=_starts(cycle, job), reasons=reasons)


def find_job(picture: Picture, cluster: Cluster, name: str) -> JobPicture | None:
    found = picture.job(name)
    if found is None:
        task = cluster.tasks.get(TaskKey(name))
        found = picture.job(task.job.key) if task is not None and task.job is not None else None
    return found or _of_composite(picture, cluster, name)


def _of_composite(picture: Picture, cluster: Cluster, name: str) -> JobPicture | None:
    """A group inside a composite one is part of a job, and no job itself."""
    known = (JobKey(f"{name}{suffix}") for suffix in ("", SUFFIX, COMPOSITE_SUFFIX))
    inside = (cluster.upstream.job_of(one) for one in known if one in cluster.upstream.groups)
    return next(filter(None, map(picture.job, inside)), None)


def _starts(cycle: Cycle, job: Job) -> bool:
    return any(isinstance(decision, Bind) and decision.job == job.key for decision in cycle.decisions)


def _reason(seen: JobPicture, code: str, message: str) -> Reason:
    return Reason(code, message, next_step(code, message, kind=seen.kind, group=seen.group))


def _ranked(seen: JobPicture, dominant: Explanation, others: Iterable[Reason]) -> list[Reason]:
    """Each code once, but for reasons of nodes, of which there may be several with one code."""
    first = _reason(seen, dominant.code, dominant.message)
    found = [first]
    for reason in others:
        if reason.code and reason.code != dominant.code and reason not in found:
            found.append(reason)
    return found


def _beside(cluster: Cluster, seen: JobPicture) -> list[Reason]:
    """What is wrong with its group beside the reason why it waits. Whoever corrects that one wants to know now."""
    warning = cluster.warning_about("PodGroup", seen.group)
    if warning is None:
        return []
    code, message = object_warning(warning.kind, warning.value)
    return [_reason(seen, code, message)]


def _not_considered(seen: JobPicture, cluster: Cluster, now: float, beside: Sequence[Reason]) -> JobExplanation:
    """Its group or queue does not exist, or it has not got any yet."""
    found: list[Reason] = []
    for decision in orphans(cluster, now):
        if isinstance(decision, PatchGroup) and decision.job == seen.group:
            found += [_reason(seen, c.reason, c.message) for c in decision.conditions if c.message]
        elif isinstance(decision, PatchPod):
            task = cluster.tasks.get(decision.task)
            if task is not None and task.job is not None and task.job.key == seen.group:
                found.append(_reason(seen, decision.reason, decision.message))
    if not found and seen.reason:
        found.append(_reason(seen, seen.reason, seen.message))
    return JobExplanation(seen, starts_next=False, reasons=list(dict.fromkeys([*found, *beside])))


# -- what the session knows -------------------------------------------------------------------------------------------


def _facts(session: Session, job: Job, seen: JobPicture) -> JobExplanation:
    explainer = Explainer(session)
    reasons = [_reason(seen, why.code, why.message) for why in explainer.blockers(job)]
    reasons = [*_deadlock(session, job), *_outgrown(session, job), *reasons]
    axis = session.axis
    tasks = session.pending_tasks(job)
    missing = missing_pods(job)
    fit: int | None = None
    survey: NodeSurvey | None = None
    needs = job.min_resources
    if tasks:
        fit, survey = explainer.fit(job)
        needs = sum((task.request for task in tasks[:missing]), start=axis.zeros())
    unoffered = [one for task in tasks[:missing] for one in task.shape.unoffered] if tasks else job.unoffered
    needed = with_unoffered(without_pods(axis, needs), unoffered)
    closed = [node.row for node in session.ledger.locked.values() if not _is_open_to(node, job)]
    usable = session.nodes.ready & session.nodes.schedulable
    usable[closed] = False
    idle = session.nodes.idle[usable].clip(min=0)
    columns = {name: axis.index.get(name, UNOFFERED) for name in needed}
    line = _line(session, job)
    place = line.index(job) if job in line else 0
    return JobExplanation(
        job=seen,
        starts_next=False,
        reasons=reasons,
        pods_needed=missing,
        pods_counted=min(missing, len(tasks)) if tasks else missing,
        pods_that_fit=fit,
        needs=needed,
        each=with_unoffered(without_pods(axis, tasks[0].request), tasks[0].shape.unoffered) if tasks else {},
        free={name: int(idle[:, column].sum()) for name, column in columns.items()},
        largest={name: int(idle[:, column].max(initial=0)) for name, column in columns.items()},
        nodes=len(session.nodes),
        available=0 if survey is None else survey.available,
        node_counts=[] if survey is None else [NodeCount(*pair, number) for pair, number in survey.ranked],
        position=place + 1 if job in line else 0,
        queue_length=len(line),
        ahead=[Ahead(name_of(other), _because(session, other, job)) for other in line[:place]],
        kept=_kept(session, job),
    )


def _is_open_to(node: Node, job: Job) -> bool:
    return node.lock is None or job.queue.name in node.lock.opens_to


def _deadlock(session: Session, job: Job) -> list[Reason]:
    """Whether it waits for another gang that waits for it, and how that ends."""
    found = half_gangs.foreseen_deadlock(session, job)
    if found is None:
        return []
    leaves, completed = (display_name(one) for one in found)
    timeout = half_gangs.deadlock_timeout(session.configuration)
    due = format_timestamp(waiting_since(session, found[0]) + timeout)
    said = gang_reasons.deadlock(leaves, completed, timeout, due)
    return [Reason(half_gangs.REASON, said, gang_reasons.deadlock_next_step(leaves, timeout))]


def _outgrown(session: Session, job: Job) -> list[Reason]:
    """Whether it waits in a domain that could never hold it, and how that ends."""
    if not half_gangs.leaving_pods(session, job):
        return []
    timeout = half_gangs.deadlock_timeout(session.configuration)
    due = format_timestamp(waiting_since(session, job) + timeout)
    said = topology_reasons.outgrown_domain(display_name(job), timeout, due)
    return [Reason(half_gangs.OUTGROWN, said, topology_reasons.outgrown_next_step(timeout))]


def _line(session: Session, job: Job) -> list[Job]:
    """The jobs of the same queue that wait, in the order in which they are tried."""
    waiting = [one for one in session.jobs if one.queue is job.queue and _waits(session, one)]
    walk = Walk(session, waiting)
    line = []
    while (found := walk.next()) is not None:
        line.append(found)
    return line


def _waits(session: Session, job: Job) -> bool:
    return bool(job.pending_count or job.waiting_count) or (job.phase == "Pending" and session.notes.refused(job))


def _because(session: Session, first: Job, job: Job) -> str:
    if first.namespace != job.namespace and session.points.namespace_order:
        keys = [session.namespace_share_key(job.queue, one.namespace) for one in (first, job)]
        shares = [session.namespace_share(job.queue, one.namespace) for one in (first, job)]
        if keys[0] < keys[1] and shares[0] is not None and shares[1] is not None:
            (part, weight), (mine, own) = shares[0], shares[1]
            return (
                f"namespace {first.namespace} has {part:.1%} of the cluster at weight {weight}, "
                f"{job.namespace} has {mine:.1%} at weight {own}"
            )
    if first.priority > job.priority:
        return f"priority {first.priority} instead of {job.priority}"
    if first.created < job.created:
        return "submitted earlier"
    return "first in the order of the queue"


def _kept(session: Session, job: Job) -> list[KeptNode]:
    places: dict[tuple[str, str], list[TaskKey]] = {}
    for task_key, task in sorted(job.tasks.items()):
        if task.status in _KEPT and task.node is not None:
            places.setdefault((task.node.name, _KEPT[task.status]), []).append(task_key)
    found = []
    for (name, how), tasks in sorted(places.items()):
        node = session.nodes.by_name[name]
        needs = sum((job.tasks[one].request for one in tasks), start=session.axis.zeros())
        short = (needs - session.nodes.idle[node.row].clip(min=0)).clip(min=0)
        there = [task for task in node.tasks.values() if task.job is not job and _must_leave(task.status, how)]
        if how == "lent":
            there = [task for task in there if task.backfill]
        missing = without_pods(session.axis, short)
        leave = sorted({name_of(task.job) if task.job is not None else task.key for task in there})
        found.append(KeptNode(name, how, missing, leave if missing else []))
    return found


def _must_leave(status: Status, how: str) -> bool:
    return status is Status.RELEASING or (how != "promised" and status in OCCUPYING)
