"""Who may be evicted, when several plugins have a say: priority, conformance, budgets, and how their words combine."""

from __future__ import annotations

import pytest

from builders import budget, cluster, established, group, node, plugin, pod, pods, priority_class, session
from stromboli.api import LabelSelector, LabelSelectorRequirement
from stromboli.cluster import Applied, Cluster, Status, Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session


class Says(Plugin):
    """Permits the pods named in `yes`, refuses those in `no`, and has nothing to say of others."""

    name = "says"

    def __init__(self, *, yes: str = "", no: str = "") -> None:
        super().__init__(Arguments())
        self._words = {**dict.fromkeys(yes.split(), Verdict.YES), **dict.fromkeys(no.split(), Verdict.NO)}

    def open(self, session: Session) -> None:
        session.add_preemptable(self._verdict, protects=False)
        session.add_reclaimable(self._verdict, protects=False)

    def _verdict(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        return self._words.get(candidate.name, Verdict.NOTHING)


ANYONE = Says(yes="a b c d v-0 v-1 v-2 v-3")


def victims(current: Session, known: Cluster, *, kind: str = "preemptable", whole: bool = False) -> list[str]:
    """Names of running pods that `default/e` may evict, each asked by itself."""
    evictor = known.tasks["default/e"]
    return [
        task.name
        for key, task in sorted(known.tasks.items())
        if task.status is Status.RUNNING and current.may_evict(kind, evictor, task, whole=whole)
    ]


def three_running() -> Cluster:
    return cluster(
        node("n1", cpu=9),
        group("pg"),
        [pod(name, group="pg", cpu=1, node="n1") for name in ("a", "b", "c")],
        group("evictor"),
        pod("e", group="evictor", cpu=1),
    )


# -- how words combine --------------------------------------------------------------------------------------------


def test_in_one_tier_a_no_beats_a_yes() -> None:
    known = three_running()
    current = session(known, tiers=[[Says(yes="a b"), Says(yes="b c", no="a")]])
    assert victims(current, known) == ["b", "c"]


def test_who_has_nothing_to_say_is_not_counted() -> None:
    known = three_running()
    assert victims(session(known, tiers=[[Says(yes="a b"), Says()]]), known) == ["a", "b"]


def test_without_a_yes_there_is_no_victim() -> None:
    known = three_running()
    assert victims(session(known), known) == []
    assert victims(session(known, tiers=[["gang", "conformance", "pdb"]]), known) == []


# The first tier has a word on a and b, so the second is asked about c only.
def test_the_first_tier_with_a_word_on_a_candidate_decides() -> None:
    known = three_running()
    current = session(known, tiers=[[Says(yes="a", no="b")], [Says(yes="b c", no="a")]])
    assert victims(current, known) == ["a", "c"]


def test_protectors_are_asked_in_every_tier() -> None:
    known = three_running()  # minMember 1 and three run: two may go, and each of the three is asked as the first
    assert victims(session(known, tiers=[[ANYONE], ["gang"]]), known) == ["a", "b", "c"]
    known.apply(Applied(group("pg", min_member=3, created=0)))
    assert victims(session(known, tiers=[[ANYONE], ["gang"]]), known) == []
    assert victims(session(known, tiers=[[ANYONE], ["gang"]]), known, whole=True) == ["a", "b", "c"]


def test_a_pod_that_says_it_is_not_preemptable_is_no_victim() -> None:
    known = cluster(
        node("n1", cpu=9),
        group("pg"),
        pod("a", group="pg", cpu=1, node="n1", preemptable=False),
        pod("b", group="pg", cpu=1, node="n1", preemptable=True),
        group("evictor"),
        pod("e", group="evictor", cpu=1),
    )
    assert victims(session(known, tiers=[[ANYONE]]), known) == ["b"]


# -- priority -----------------------------------------------------------------------------------------------------


def priorities() -> Cluster:
    return cluster(
        node("n1", cpu=9),
        [priority_class(name, value) for name, value in (("low", 10), ("mid", 50), ("high", 100))],
        group("l", priority_class="low"),
        group("m", priority_class="mid"),
        group("h", priority_class="high"),
        pod("a", group="l", cpu=1, node="n1"),
        pod("b", group="m", cpu=1, node="n1"),
        pod("c", group="h", cpu=1, node="n1"),
        group("evictor", priority_class="mid"),
        pod("e", group="evictor", cpu=1),
    )


def test_lower_priority_yields_higher_does_not_and_equal_is_open_to_others() -> None:
    known = priorities()
    assert victims(session(known, tiers=[["priority"]]), known) == ["a"]
    assert victims(session(known, tiers=[["priority"], [ANYONE]]), known) == ["a", "b"]
    assert victims(session(known, tiers=[["priority", ANYONE]]), known) == ["a", "b"]


def test_priority_has_no_say_between_queues() -> None:
    known = priorities()
    assert victims(session(known, tiers=[["priority"]]), known, kind="reclaimable") == []


def test_priority_can_be_kept_from_permitting() -> None:
    known = priorities()
    assert victims(session(known, tiers=[[plugin("priority", preemptable=False)]]), known) == []


def test_inside_a_job_the_priority_of_pods_decides() -> None:
    known = cluster(
        node("n1", cpu=9),
        group("pg"),
        pod("a", group="pg", cpu=1, node="n1", priority=1),
        pod("b", group="pg", cpu=1, node="n1", priority=5),
        pod("c", group="pg", cpu=1, node="n1", priority=9),
        pod("e", group="pg", cpu=1, priority=5),
    )
    assert victims(session(known, tiers=[["priority"]]), known) == ["a"]


def test_priority_orders_jobs_by_class_and_pods_by_their_own() -> None:
    known = cluster(
        priority_class("high", 100),
        group("first-made"),
        group("important", priority_class="high"),
        pod("p-1", group="important", cpu=1, priority=1),
        pod("p-2", group="important", cpu=1, priority=7),
    )
    current = session(known, tiers=[["priority"]])
    ordered = sorted(current.jobs, key=current.job_key)
    assert [job.name for job in ordered] == ["important", "first-made"]
    assert [task.name for task in current.pending_tasks(ordered[0])] == ["p-2", "p-1"]


def test_a_job_wants_more_as_long_as_a_pod_of_it_waits_that_may_be_placed() -> None:
    known = cluster(
        node("n1", cpu=9),
        group("pg"),
        pod("a", group="pg", cpu=1, node="n1"),
        pod("gated", group="pg", cpu=1, gated=True),
    )
    assert not session(known, tiers=[["priority"]]).job_starving(known.jobs["default/pg"])  # type: ignore[index]
    known.apply(Applied(pod("b", group="pg", cpu=1)))
    current = session(known, tiers=[["priority"]])
    assert current.job_starving(current.jobs[0])


# -- conformance --------------------------------------------------------------------------------------------------


def test_what_the_cluster_runs_on_is_nobodys_victim() -> None:
    known = cluster(
        node("n1", cpu=9),
        group("pg"),
        group("kube-system/pg"),
        pod("a", group="pg", cpu=1, node="n1"),
        pod("b", group="pg", cpu=1, node="n1", priority_class="system-cluster-critical"),
        pod("c", group="pg", cpu=1, node="n1", priority_class="system-node-critical"),
        pod("kube-system/d", group="pg", cpu=1, node="n1"),
        group("evictor"),
        pod("e", group="evictor", cpu=1),
    )
    for kind in ("preemptable", "reclaimable"):
        assert victims(session(known, tiers=[[ANYONE, "conformance"]]), known, kind=kind) == ["a"]


# -- budgets ------------------------------------------------------------------------------------------------------


def budgeted(*budgets: object, labels: dict[str, str] | None = None) -> Cluster:
    return cluster(
        node("n1", cpu=9),
        group("pg", min_member=0),
        pods("v", 3, group="pg", cpu=1, node="n1", labels={"app": "web"} if labels is None else labels),
        group("evictor"),
        pod("e", group="evictor", cpu=1),
        *budgets,  # type: ignore[arg-type]
    )


def evicted_in_turn(known: Cluster) -> list[str]:
    """Ask for one pod after the other, and evict it where that is allowed."""
    current = session(known, tiers=[[ANYONE, "pdb"]])
    statement = current.statement()
    gone = []
    for key in sorted(known.tasks):
        task = known.tasks[key]
        if task.status is Status.RUNNING and current.may_evict("preemptable", known.tasks["default/e"], task):  # type: ignore[index]
            statement.evict(task, reason="Preempted", message="")
            gone.append(task.name)
    return gone


@pytest.mark.parametrize(("allowed", "gone"), [(0, []), (1, ["v-0"]), (2, ["v-0", "v-1"])])
def test_no_more_are_evicted_than_the_budget_allows(allowed: int, gone: list[str]) -> None:
    assert evicted_in_turn(budgeted(budget("b", allowed=allowed, selector={"app": "web"}))) == gone


def test_without_a_budget_everybody_may_go() -> None:
    assert evicted_in_turn(budgeted()) == ["v-0", "v-1", "v-2"]


@pytest.mark.parametrize(
    "other", [budget("other-namespace/b", allowed=0, selector={"app": "web"}), budget("b", allowed=0)]
)
def test_a_budget_of_another_namespace_or_without_a_selector_covers_nobody(other: object) -> None:
    assert evicted_in_turn(budgeted(other)) == ["v-0", "v-1", "v-2"]


def test_pods_without_labels_are_covered_by_an_empty_selector_only() -> None:
    named = budget("b", allowed=0, selector={"app": "web"})
    assert evicted_in_turn(budgeted(named, labels={})) == ["v-0", "v-1", "v-2"]
    assert evicted_in_turn(budgeted(budget("b", allowed=1, selector={}), labels={})) == ["v-0"]


def test_selectors_may_be_expressions() -> None:
    expression = LabelSelectorRequirement(key="app", operator="In", values=["web", "db"])
    chosen = LabelSelector(match_expressions=[expression])
    assert evicted_in_turn(budgeted(budget("b", allowed=1, selector=chosen))) == ["v-0"]


def test_every_budget_that_covers_a_pod_has_to_allow_it() -> None:
    wide, narrow = budget("wide", allowed=3, selector={}), budget("narrow", allowed=1, selector={"app": "web"})
    assert evicted_in_turn(budgeted(wide, narrow)) == ["v-0"]


def test_an_eviction_that_is_undone_is_given_back() -> None:
    known = budgeted(budget("b", allowed=1, selector={}))
    current = session(known, tiers=[[ANYONE, "pdb"]])
    statement = current.statement()
    statement.evict(known.tasks["default/v-0"], reason="Preempted", message="")  # type: ignore[index]
    assert victims(current, known) == []
    statement.discard()
    assert victims(current, known) == ["v-0", "v-1", "v-2"]


def test_a_placement_that_is_undone_costs_nothing() -> None:
    known = budgeted(budget("b", allowed=1, selector={}))
    current = session(known, tiers=[[ANYONE, "pdb"]])
    statement = current.statement()
    statement.allocate(known.tasks["default/e"], known.nodes["n1"])  # type: ignore[index]
    statement.discard()
    assert victims(current, known) == ["v-0", "v-1", "v-2"]


# Allowed 2, and a gang of three has to go at once; asked before any of them is gone.
@pytest.mark.parametrize(("allowed", "gone"), [(2, []), (3, ["v-0", "v-1", "v-2"])])
def test_a_gang_that_goes_as_a_whole_needs_room_in_the_budget_for_all_of_it(allowed: int, gone: list[str]) -> None:
    known = budgeted(budget("b", allowed=allowed, selector={}))
    assert victims(session(known, tiers=[[ANYONE, "pdb"]]), known, whole=True) == gone


# The API server counts v-0 already, so its eviction is free; one more is allowed.
def test_a_pod_that_the_budget_knows_to_be_disrupted_is_not_counted_twice() -> None:
    known = budgeted(budget("b", allowed=1, selector={}, disrupted=["v-0"]))
    assert evicted_in_turn(known) == ["v-0", "v-1"]


# The eviction of the last cycle is on its way: the pod still runs, and the budget's status is still the old one.
def test_an_eviction_of_an_earlier_cycle_counts_until_the_budget_knows_of_it() -> None:
    known = budgeted(budget("b", allowed=1, selector={}))
    first = session(known, tiers=[[ANYONE, "pdb"]])
    statement = first.statement()
    statement.evict(known.tasks["default/v-0"], reason="Preempted", message="")  # type: ignore[index]
    statement.commit()
    assert victims(session(known, tiers=[[ANYONE, "pdb"]]), known) == []
    known.apply(Applied(budget("b", allowed=0, selector={}, disrupted=["v-0"])))
    assert victims(session(known, tiers=[[ANYONE, "pdb"]]), known) == []
    known.apply(Applied(budget("b", allowed=1, selector={}, disrupted=["v-0"])))
    assert victims(session(known, tiers=[[ANYONE, "pdb"]]), known) == ["v-1", "v-2"]


# v-0 is already being deleted, and the budget's controller has seen that: one more is allowed.
def test_a_pod_that_is_being_deleted_is_the_business_of_its_budget() -> None:
    known = budgeted(budget("b", allowed=1, selector={}))
    known.apply(Applied(established(pod("v-0", group="pg", cpu=1, node="n1", labels={"app": "web"}, deleted=True))))
    assert known.tasks["default/v-0"].status is Status.RELEASING  # type: ignore[index]
    assert victims(session(known, tiers=[[ANYONE, "pdb"]]), known) == ["v-1", "v-2"]


def test_budgets_hold_when_queues_take_back_too() -> None:
    known = budgeted(budget("b", allowed=0, selector={}))
    assert victims(session(known, tiers=[[ANYONE, "pdb"]]), known, kind="reclaimable") == []
