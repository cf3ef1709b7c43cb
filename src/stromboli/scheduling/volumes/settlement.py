"""What becomes of binds that wait for volumes.

    placed ──▶ held: claims get a volume, or a selected node ──▶ all claims bound ──▶ bound
                 │
                 └─ the provisioner gives up, a volume is lost, the node takes no pods any more (`chosen_nodes`), or
                    it takes too long ──▶ pending, and another node is next

The tasks of a gang wait for each other: none of them is bound before so many have their volumes that the gang can
start. The others follow one by one. If one fails and the gang cannot start without it, all give their places back.

All that a later cycle needs is in objects: the pods are nominated to their nodes, claims have their selected node and
when it was selected, volumes name their claims. A scheduler that has just started holds the pending pods with such
nominations again (`adoption`), and writes only what is missing. What was made for a claim stays the claim's, also if
the pod gives its place back; the pod then goes where it can be reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stromboli.api import PersistentVolumeClaim, is_backfill
from stromboli.api.timestamps import format_timestamp
from stromboli.api.volumes.claims import LOST, is_bound, is_for, selected_at, selected_node
from stromboli.api.volumes.topology import reaches
from stromboli.cluster import HeldBind, Job, Node, RefusedBind, Status, Task
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.decisions import Bind, ClaimVolume, Notice, SelectNode, UnclaimVolume
from stromboli.scheduling.explanation import volume_reasons as reasons
from stromboli.scheduling.gang import complete
from stromboli.scheduling.session import Session

from .adoption import forget_former_holds, hold_again
from .choices import VolumeChoices
from .chosen_nodes import GIVEN_BACK, ChosenNodes
from .claim_states import ClaimState, ClaimStates
from .claims_first import ClaimsFirst
from .volume_checks import VolumeRules, volume_rules

FEATURE = "volumes"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a held task cannot have its volumes on its node. `refused`: another attempt there would fail again.
    `by_node`: the node does not take the task any more."""

    why: str
    refused: bool = False
    by_node: bool = False


def settle_volumes(session: Session) -> None:
    """Continue with what waits. Before plugins are opened: they must see the room that is given back."""
    index = session.snapshot.volumes
    if not session.ledger.held and not session.ledger.nominated and not index.selecting and not index.given_up:
        return
    rules = volume_rules(session.configuration)
    binding = rules is not None and rules.binding
    if binding:
        hold_again(session)
        session.state(ClaimsFirst).settle()
    else:
        forget_former_holds(session)
    if session.ledger.held:
        _continue(session, rules)
    if binding:
        session.state(ChosenNodes).free()


def open_volumes(session: Session) -> None:
    rules = volume_rules(session.configuration)
    if rules is not None and rules.binding and session.snapshot.volumes.users:
        with session.registering(FEATURE):
            session.points.hold.add(_Beginning(session, rules.timeout).hold)
            first = session.state(ClaimsFirst)
            session.points.prepare.add(first.prepare)
            session.points.why_no_nodes.add(first.why_no_nodes)
            session.points.close.add(first.say)
            session.points.narrow.add(session.state(ClaimStates).bound_to_places)
            session.points.close.add(session.state(ChosenNodes).close)
            session.points.withdrawal.add(lambda task, reason, message: _withdraw(session, task, reason, message))


# -- binds that begin to wait -----------------------------------------------------------------------------------------


class _Beginning:
    """Holds the binds of tasks that were placed together: each open claim gets a volume, or its node is selected."""

    def __init__(self, session: Session, timeout: float) -> None:
        self._session = session
        self._timeout = timeout
        self._states = session.state(ClaimStates)
        self._choices = session.state(VolumeChoices)
        self._chosen = session.state(ChosenNodes)
        self._index = session.snapshot.volumes
        self._decisions = session.cycle.decisions
        self._at = format_timestamp(session.now)
        self._now = session.now
        self._settled = self._choices.settled  # several tasks may have one claim

    def hold(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Whether the binds of tasks that were placed together must wait; then their claims are settled."""
        kinds = self._states.one_of_each_kind(tasks)
        # Most gangs are like this: each task has one claim, of its own, whose volume has to be made.
        all_are_made = not self._choices.any and self._states.all_select_nodes(kinds)
        if not all_are_made and not job.held and not self._states.any_open(kinds):
            return False
        session, before = self._session, len(self._decisions)
        ledger = session.ledger
        held = (self._make_all if all_are_made else self._settle_each)(tasks)
        ledger.hold(job, tasks, held)
        if len(self._decisions) == before:
            # All was settled before: the scheduler was restarted. Nothing is written that would call for another cycle.
            _stand(session, tasks)
            session.due(session.now)
        # Of the claim that was settled first: a restart does not reset it.
        since = self._now if all_are_made else min([one.since for one in held])
        session.due(since + self._timeout)
        return True

    def _make_all(self, tasks: Sequence[Task]) -> list[HeldBind]:
        at, now = self._at, self._now
        nodes = [task.node.name for task in tasks if task.node is not None]
        if self._index.selected:
            self._index.selected.difference_update([task.claim for task in tasks])
        places = zip(tasks, nodes, strict=True)
        self._decisions.extend([SelectNode(task.claim, node, task.key, task.uid, at) for task, node in places])
        places = zip(tasks, nodes, strict=True)
        return [HeldBind(node, now, (task.claim,)) for task, node in places]

    def _settle_each(self, tasks: Sequence[Task]) -> list[HeldBind]:
        return [self._settle_claims(task) for task in tasks]

    def _settle_claims(self, task: Task) -> HeldBind:
        node = task.node
        assert node is not None
        held = HeldBind(node.name, self._now)
        for claim_key in task.volumes.claims:
            state = self._states.of(claim_key)
            if state.is_open:
                held.waits_for = (*held.waits_for, claim_key)
                self._settle(task, node.name, held, claim_key, state)
        return held

    def _settle(self, task: Task, node: str, held: HeldBind, claim_key: str, state: ClaimState) -> None:
        claim = state.claim
        assert claim is not None
        volume = self._choices.of(task).get(claim_key, "")
        if volume:
            held.volumes = {**held.volumes, claim_key: volume}
        if state.named_by is not None or state.selected:
            # What was selected in this cycle is not in the object yet, which tells of an earlier attempt.
            before = None if claim_key in self._chosen.selected else selected_at(claim)
            held.since = held.since if before is None else min(held.since, before)
        elif claim_key not in self._settled and volume:
            self._decisions.append(ClaimVolume(volume, claim_key, claim.metadata.uid, task.key, task.uid, node))
            self._settled.add(claim_key)
        elif claim_key not in self._settled:
            self._chosen.select(SelectNode(claim_key, node, task.key, task.uid, self._at))
            self._settled.add(claim_key)


def _stand(session: Session, tasks: Sequence[Task]) -> None:
    """From now on others may take these places."""
    for task in tasks:
        held = session.ledger.held[task.key]
        if not held.standing:
            session.ledger.note_change()
        held.standing = True


# -- binds that wait --------------------------------------------------------------------------------------------------


def _continue(session: Session, rules: VolumeRules | None) -> None:
    held = session.ledger.held
    # By name: the order in which they were placed is not known after a restart.
    by_job = [
        [job.tasks[task_key] for task_key in sorted(job.tasks) if task_key in held] for job in session.jobs if job.held
    ]
    gangs = _has_gangs(session.configuration)
    before = len(held)
    crowded = set(np.flatnonzero((session.nodes.idle < 0).any(axis=1)).tolist())
    for tasks in by_job:
        _continue_job(session, rules, tasks, crowded, gangs=gangs)
    if len(held) < before:
        session.list_waiting()  # who gave its place up is placed again in this cycle


def _has_gangs(configuration: Configuration) -> bool:
    """Whether a plugin will say when jobs are ready; otherwise all are. Plugins are not open yet."""
    options = (option for tier in configuration.tiers for option in tier.plugins)
    return any(option.name == "gang" and option.is_enabled("jobReady") for option in options)


def _continue_job(
    session: Session, rules: VolumeRules | None, tasks: Sequence[Task], crowded: set[int], *, gangs: bool
) -> None:
    """`tasks`: all of a job that are held; `crowded`: nodes that have less than their pods request."""
    left = _without_failed(session, rules, tasks, crowded, gangs=gangs)
    if not left:
        return
    job, held = tasks[0].job, session.ledger.held
    assert job is not None
    waiting = [task for task in left if held[task.key].waits_for]
    if not gangs or _can_start_without(job, waiting):
        for task in left:
            if task not in waiting:
                _bind(session, task)
        left = waiting
    _stand(session, left)
    if rules is not None and left:
        session.due(min(held[task.key].since for task in left) + rules.timeout)


def _without_failed(
    session: Session, rules: VolumeRules | None, tasks: Sequence[Task], crowded: set[int], *, gangs: bool
) -> list[Task]:
    """Those of these tasks that keep their places. A gang that cannot start without the others keeps none."""
    job = tasks[0].job
    assert job is not None
    found = [(task, _failure(session, rules, task, crowded)) for task in tasks]
    for task, failure in found:
        if failure is not None:
            _give_back(session, task, failure)
    left = [task for task, failure in found if failure is None]
    if not gangs or complete(job):
        return left
    for task in left:
        _give_back(session, task, None)
    return []


def _can_start_without(job: Job, waiting: Sequence[Task]) -> bool:
    """Whether the job has its minimum without these tasks, which wait for volumes."""
    if job.ready_count - len(waiting) < job.min_available:
        return False
    roles = Counter(task.role for task in waiting)
    return not job.roles_matter or all(
        job.role_occupied(role) - job.role_pending_best_effort.get(role, 0) - roles[role] >= least
        for role, least in job.role_minimums.items()
    )


def _failure(session: Session, rules: VolumeRules | None, task: Task, crowded: set[int]) -> Failure | None:
    """Why a task must give up its place; None if it has its volumes or may still get them."""
    held = session.ledger.held[task.key]
    node = task.node
    if node is None:
        return Failure(reasons.node_is_gone(held.node), by_node=True)
    if why := session.state(ChosenNodes).why_not(task, node.name):
        return Failure(why, by_node=True)
    if node.row in crowded and _is_crowded_out(session, task, node):
        return Failure(reasons.node_too_small(node.name), by_node=True)
    if rules is None or not rules.binding:
        held.waits_for = ()
        return None
    waits = []
    for claim_key in task.volumes.claims:
        claim = session.snapshot.volumes.claims.get(claim_key)
        if claim is None or claim.status.phase == LOST:
            return Failure(reasons.claim_gone(claim_key))
        bound = is_bound(claim)
        failure = (
            _failure_of_bound(session, node, claim_key, claim, zones=rules.zones)
            if bound
            else _failure_of_open(session, held, claim_key, claim)
        )
        if failure is not None:
            return failure
        if not bound:
            waits.append(claim_key)
    held.waits_for = tuple(waits)
    if waits and session.now > held.since + rules.timeout:
        return Failure(reasons.volumes_late(waits, rules.timeout), refused=True)
    return None


def _is_crowded_out(session: Session, task: Task, node: Node) -> bool:
    """Whether a node has less than its pods request of something that the task requests: it has become smaller, or
    somebody else has put a pod there."""
    idle = session.nodes.idle[node.row]
    return bool(((idle < 0) & (task.shape.request > 0)).any())


def _failure_of_bound(
    session: Session, node: Node, key: str, claim: PersistentVolumeClaim, *, zones: bool
) -> Failure | None:
    name = claim.spec.volume_name
    volume = session.snapshot.volumes.volumes.get(name)
    if volume is None:
        return Failure(reasons.volume_gone(key, name))
    if not reaches(volume, node.labels, node.name, zones=zones):
        return Failure(reasons.volume_elsewhere(key, name, node.name))
    return None


def _failure_of_open(session: Session, held: HeldBind, key: str, claim: PersistentVolumeClaim) -> Failure | None:
    name = held.volumes.get(key)
    if name is not None:
        volume = session.snapshot.volumes.volumes.get(name)
        if volume is None:
            return Failure(reasons.volume_gone(key, name))
        if volume.spec.claim_ref is not None and not is_for(volume, claim):
            return Failure(reasons.volume_taken(key, name))
        return None
    if not selected_node(claim) and key in session.snapshot.volumes.selected:
        return Failure(reasons.provisioner_gave_up(key), refused=True)
    return None


def _bind(session: Session, task: Task) -> None:
    assert task.node is not None
    assert task.job is not None
    session.ledger.release(task)
    session.ledger.note_change()
    session.cycle.decisions.append(Bind(task.key, task.node.name, task.job.key, task.backfill, task.uses))


def _give_back(session: Session, task: Task, failure: Failure | None) -> None:
    """The task is pending again. Without a failure of its own, it was placed with one that failed."""
    ledger = session.ledger
    held = ledger.held[task.key]
    if failure is not None and (failure.refused or failure.by_node):
        _clean_up(session, held, task)
    if failure is not None and failure.refused:
        task.refused = task.refused or RefusedBind()
        task.refused.add(held.node, failure.why, session.now, by_volumes=True)
        ledger.refused_binds[task.key] = task
    why = failure.why if failure is not None else reasons.mate_failed()
    _leave(session, task, GIVEN_BACK, reasons.place_given_back(held.node, why))


def _withdraw(session: Session, task: Task, reason: str, message: str) -> None:
    """Others get the place of the task."""
    held = session.ledger.held[task.key]
    _clean_up(session, held, task)
    _leave(session, task, reason, reasons.place_taken(held.node, message))


def _leave(session: Session, task: Task, reason: str, message: str) -> None:
    ledger = session.ledger
    session.cycle.decisions.append(Notice("Pod", task.key, reason, message, warning=True))
    if task.backfill and not is_backfill(task.pod):
        ledger.leave(task)
        task.backfill = False
        ledger.enter(task)
    ledger.set_use(task, "")
    ledger.settle(task, Status.PENDING, None)


def _clean_up(session: Session, held: HeldBind, task: Task) -> None:
    """Take back what we asked for, so that the claim can get its volume elsewhere. Not if others wait for it, too."""
    index, decide = session.snapshot.volumes, session.cycle.decisions.append
    states = session.state(ClaimStates)
    for claim_key in task.volumes.claims:
        claim = index.claims.get(claim_key)
        if claim is None or is_bound(claim) or _others_wait(session, task, claim_key):
            continue
        volume = index.volumes.get(held.volumes.get(claim_key, ""))
        if volume is not None and is_for(volume, claim):
            decide(UnclaimVolume(volume.metadata.name, claim_key))
        elif selected_at(claim) is not None and selected_node(claim):
            session.state(ChosenNodes).freed[claim_key] = None
        else:
            continue
        states.reopen(claim_key)


def _others_wait(session: Session, task: Task, claim: str) -> bool:
    held = session.ledger.held
    return any(
        claim in held[user].waits_for
        for user in session.snapshot.volumes.users.get(claim, ())
        if (user != task.key and user in held)
    )
