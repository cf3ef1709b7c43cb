"""Terms of affinity of one tenant are not tried on the pods of another, unless they are written about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from builders import cluster, group, node, pod
from stromboli.api import (
    Affinity,
    KObject,
    LabelSelector,
    LabelSelectorRequirement,
    PodAffinityTerm,
    PodAntiAffinity,
)
from stromboli.api.selectors import affinity_term_selects
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugins.node_filters import pod_terms
from stromboli.scheduling.registry import Registry


def tenant(operator: str, namespaces: LabelSelector | None) -> Iterable[KObject]:
    """20 pods with 10 terms each, all different. Half of them run."""
    for number in range(20):
        terms = [
            PodAffinityTerm(
                topology_key="kubernetes.io/hostname",
                label_selector=LabelSelector(match_expressions=[
                    LabelSelectorRequirement(key=f"k{number}-{each}", operator=operator, values=[])]),
                namespace_selector=namespaces,
            )
            for each in range(10)
        ]  # fmt: skip
        affinity = Affinity(
            pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms)
        )
        yield group(f"tenant/g{number}")
        where = f"n{number}" if number < 10 else ""
        yield pod(f"tenant/p{number}", cpu=1, group=f"g{number}", affinity=affinity, node=where)


@pytest.mark.parametrize(
    ("operator", "namespaces"),
    [("DoesNotExist", None), ("Exists", None), ("Exists", LabelSelector())],
    ids=["any labels in its own namespace", "a label in its own namespace", "a label in any namespace"],
)
def test_they_are_not_tried_on_others(
    operator: str, namespaces: LabelSelector | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each of the 200 terms was tried on each of the 12 pods, and again when one of these was placed."""
    tried: list[str] = []

    def noted(term: PodAffinityTerm, **about: Any) -> bool:
        tried.append(about["namespace"])
        return affinity_term_selects(term, **about)

    monkeypatch.setattr(pod_terms, "affinity_term_selects", noted)
    known = cluster(
        [node(f"n{number}", cpu=4, labels={"kubernetes.io/hostname": f"n{number}"}) for number in range(12)],
        group("team/gang", min_member=12), [pod(f"team/p{n}", cpu=1, group="gang") for n in range(12)],
        tenant(operator, namespaces),
    )  # fmt: skip
    registry = Registry()
    decisions = Scheduler(registry.default(), registry).run(known, 2_000_000_000.0).decisions
    bound = [one.task for one in decisions if isinstance(one, Bind) and one.task.startswith("team/")]
    assert len(bound) == 12
    assert tried.count("team") == 0
