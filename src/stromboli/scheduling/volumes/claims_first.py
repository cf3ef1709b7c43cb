"""Nobody is evicted for a pod before its volumes are there.

That a class makes volumes for a node does not mean that it makes this one: the storage may be full, the provisioner
away. Whoever was evicted for the pod would be gone in vain, and others after each further attempt. So when evictions
would give a pod its place, and its volumes have to be made, they are made first, for the node in question. The pods
there run on meanwhile. When the volumes exist, the search is repeated. It takes as long as in the other order.

What fails is handled as for a pod that has its place: a provisioner that gives up, or takes too long, makes the pod
pause, and try another node next. Existing volumes need not be made, so nothing is awaited for them.

Starved jobs get no nodes set aside for some time after their volumes could not be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stromboli.api.timestamps import format_timestamp
from stromboli.api.volumes.claims import selected_at
from stromboli.cluster import Job, RefusedBind, Status, Task
from stromboli.scheduling.decisions import SelectNode
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation import volume_reasons as reasons
from stromboli.scheduling.session import Session

from .choices import VolumeChoices
from .chosen_nodes import ChosenNodes
from .claim_states import ClaimStates

_MOST_DOUBLINGS: Final = 4


class ClaimsFirst:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.snapshot.volumes
        self._states = session.state(ClaimStates)
        self._timeout = self._states.rules.timeout
        self._waiting: dict[Job, str] = {}  # jobs whose volumes are made before others make room for them

    # -- before evictions -----------------------------------------------------------------------------------------

    def prepare(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Whether the volumes of tasks that would get their places by evictions exist; if not, they are made."""
        waits: dict[str, str] = {}  # the node that the volume of a claim is made for
        for task in tasks:
            for claim in task.volumes.claims:
                node = self._made_for(task, claim)
                if node:
                    waits[claim] = node
        if waits:
            self._waiting[job] = reasons.volumes_first(waits, waits.values())
        return not waits

    def say(self) -> None:
        """At the end: later actions have tried these jobs again, and noted other things."""
        for job, sentence in self._waiting.items():
            self._session.notes.of(job).said[Code.WAITING_FOR_VOLUMES] = sentence

    def _made_for(self, task: Task, claim: str) -> str:
        """The node that the volume of a claim is made for, if it has to be made."""
        state, choices = self._states.of(claim), self._session.state(VolumeChoices)
        if not state.is_open or state.named_by is not None or claim in choices.of(task):
            return ""
        assert state.claim is not None
        assert task.node is not None
        since = selected_at(state.claim) if state.selected else None
        self._session.due((self._session.now if since is None else since) + self._timeout)
        if state.selected:
            return state.selected
        at = format_timestamp(self._session.now)
        self._session.state(ChosenNodes).select_ahead(SelectNode(claim, task.node.name, task.key, task.uid, at))
        self._states.reconsider(claim)
        return task.node.name

    # -- what became of it ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Pods whose volumes do not come pause, and another node is next."""
        given_up, self._index.given_up = self._index.given_up, {}
        failed = {claim: (node, reasons.provisioner_gave_up(claim)) for claim, node in given_up.items()}
        chosen = self._session.state(ChosenNodes)
        for claim in sorted([claim for claim in self._index.selecting if self._is_late(claim)]):
            failed[claim] = (self._index.selecting[claim], reasons.volumes_late([claim], self._timeout))
            chosen.freed[claim] = None
        users = {key: task for claim in failed for key, task in self._index.users.get(claim, {}).items()}
        for _, task in sorted(users.items()):
            if task.status is Status.PENDING:
                # One attempt has failed, also if several of its claims did: as for a pod that keeps its place.
                self._refuse(task, *next(failed[claim] for claim in task.volumes.claims if claim in failed))

    def _is_late(self, claim: str) -> bool:
        """Whether a volume that no pod keeps its place for has taken too long."""
        held = self._session.ledger.held
        for user in self._index.users.get(claim, {}):
            if user in held:
                return False
        since = selected_at(self._index.claims[claim])
        return since is not None and self._session.now > since + self._timeout

    def _refuse(self, task: Task, node: str, why: str) -> None:
        """`node`: that the volume was made for."""
        ledger = self._session.ledger
        task.refused = task.refused or RefusedBind()
        # Pods that share a claim have nodes of their own. What was refused is the place, not the volume's node.
        task.refused.add(task.nominated or node, why, self._session.now, by_volumes=True)
        ledger.refused_binds[task.key] = task
        ledger.note_change()

    def why_no_nodes(self, job: Job) -> str | None:
        """Why nodes are not set aside for a job: its volumes could not be made, and they are still missing."""
        for task in job.tasks.values() if self._session.ledger.refused_binds else ():
            refused = task.refused
            if refused is None or not refused.by_volumes or not self._states.open_claims(task):
                continue
            until = refused.at + self._timeout * 2 ** min(refused.failures - 1, _MOST_DOUBLINGS)
            if self._session.now <= until:
                self._session.due(until)
                return reasons.volumes_not_made(task.key)
        return None
