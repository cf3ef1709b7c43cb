"""Conformance: pods that the cluster itself needs are never evicted.

Kubernetes marks critical pods with two priority classes and runs its own services in one namespace. Evicting such a pod
for a batch job could take down its node or the whole cluster.
"""

from __future__ import annotations

from typing import Final

from stromboli.cluster import Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

_CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_SYSTEM_NAMESPACE: Final = "kube-system"

# Looked up once: it takes long to find members of an enumeration.
_NO = Verdict.NO
_NOTHING = Verdict.NOTHING


class Conformance(Plugin):
    name = "conformance"

    def open(self, session: Session) -> None:
        session.add_preemptable(_protect_system_pods, protects=True, by_shares=True)
        session.add_reclaimable(_protect_system_pods, protects=True, by_shares=True)


def _protect_system_pods(evictor: Task, candidate: Task, whole: bool) -> Verdict:
    critical = candidate.pod.spec.priority_class_name in _CRITICAL_CLASSES
    return _NO if critical or candidate.namespace == _SYSTEM_NAMESPACE else _NOTHING
