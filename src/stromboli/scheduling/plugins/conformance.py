"""Conformance: what the cluster itself runs on is nobody's victim.

Kubernetes marks the pods it cannot do without by two priority classes and keeps its own services in one namespace.
Evicting such a pod to make room for a batch job could take the node, or the cluster, down with it.
"""

from __future__ import annotations

from typing import Final

from stromboli.cluster import Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

_CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_SYSTEM_NAMESPACE: Final = "kube-system"


class Conformance(Plugin):
    name = "conformance"

    def open(self, session: Session) -> None:
        session.add_preemptable(_spare_the_system, protects=True)
        session.add_reclaimable(_spare_the_system, protects=True)


def _spare_the_system(evictor: Task, candidate: Task, whole: bool) -> Verdict:
    critical = candidate.pod.spec.priority_class_name in _CRITICAL_CLASSES
    return Verdict.NO if critical or candidate.namespace == _SYSTEM_NAMESPACE else Verdict.NOTHING
