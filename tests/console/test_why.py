"""`stromboli why`: every reason code, and every statement about what would start a job holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.applied import starts_after
from console.situations import JOBS, SITUATIONS, Situation, situation, volcano_job, with_spec
from gangs.test_half_gangs import half
from starvation.scenes import gang, node, pod, queue
from stromboli.console.main import run
from stromboli.console.whatif.counterfactuals import Prospects, prospects
from stromboli.insight import State, explain, inspect
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.rehearsal import objects_at
from workload_groups.scenes import composite, members, workload_group

IN_CONDITIONS = {"ReservationLimitExceeded"}
"""Beside the reason why the pods wait."""


def why(situation: Situation, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run(["why", situation.job, *situation.write(folder), *options]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("code", SITUATIONS)
def test_every_code_is_explained(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(why(SITUATIONS[code], tmp_path, capsys, "-o", "json", "--no-what-if"))
    codes = [reason["code"] for reason in found["reasons"]]
    if code in IN_CONDITIONS:
        assert code in codes
    else:
        assert codes[0] == code
    reason = found["reasons"][codes.index(code)]
    assert reason["message"].endswith(".")
    assert reason["nextStep"].endswith(".")
    assert len(codes) == len(set(codes)) or codes.count(code) == 1


STARTS = {
    "QueueClosed": ["starts now in queue default", "starts when queue q is opened"],
    "QueueOverQuota": [
        "starts now in queue default",
        "starts now with a capability of 5 cpu in queue q",
        "starts when default/old ends",
    ],
    "QueueOverDeserved": [
        "starts when default/ours-0, default/ours-1, default/ours-2, default/ours-3, default/theirs-0, "
        "default/theirs-1, default/theirs-2 and default/theirs-3 end"
    ],
    "NamespaceShareAhead": ["starts when default/ours-0, default/ours-1, default/ours-2 and other/theirs end"],
    "NotEnoughPods": ["starts now with minMember 2"],
    "InsufficientNode": ["starts now with at most 2 cpu for each pod", "starts when default/b ends"],
    "NodeLockedByQueue": [
        "starts now in queue default",
        "starts now in queue own",
        "starts when default/old ends",
    ],
    "ReservationLimitExceeded": [
        "starts now with at most 3 cpu for each pod",
        "starts when default/a and default/b end",
    ],
    "WaitingForRelease": ["starts when default/low ends"],
    "ConditionallyReady": ["starts now with minMember 1", "starts when default/render ends"],
    "StarvingReserved": ["starts now with at most 2 cpu for each pod", "starts when default/old ends"],
    "GangShort": ["starts now with minMember 2", "starts when default/b ends"],
    "PredicatePodCount": ["starts when default/old ends"],
    "PredicateNodeUnschedulable": ["starts when node n1 is uncordoned"],
    "PredicateNodeAffinity": ["starts now without the selector zone=a"],
    "PredicateTaintToleration": ["starts now with a toleration of the taint gpu"],
    "PredicateNodePorts": ["starts when default/old ends"],
    "PredicateInterPodAffinity": ["starts when default/old ends"],
    "PredicatePodTopologySpread": ["starts when default/full ends"],
    "SchedulingGated": ["starts now without its scheduling gates"],
    "QueueFirstInLine": ["starts now in queue default"],
    "NoQueue": ["starts now in queue default"],
    "a gang of a Job": ["starts now with minAvailable 4", "starts when default/old ends"],
    "a Job with a selector": ["starts now without the selector zone=a", "starts when default/old ends"],
    "a Job in a full queue": [
        "starts now with minAvailable 1",
        "starts now in queue default",
        "starts now in queue large",
        "starts now with a capability of 3 cpu in queue small",
        "starts when default/old ends",
    ],
    "pods that are too large": [
        "starts now with at most 3 cpu for each pod",
        "starts when default/a and default/b end",
    ],
    "two jobs in the way": ["starts now with at most 2 cpu for each pod", "starts when default/a and default/b end"],
    "a job that ends": ["starts now with at most 1 cpu for each pod", "starts when default/old ends"],
    "someone to evict": [
        "starts now in queue default",
        "starts now with a capability of 2 cpu in queue other",
    ],
}
"""What would start the job of each situation. Those that are not here start by nothing that is tried."""


# -- what would start it ----------------------------------------------------------------------------------------------


def found_for(situation: Situation, folder: Path) -> Prospects:
    registry = Registry()
    config = situation.config
    configuration = registry.default() if config is None else registry.load(config)
    objects, now = objects_at([situation.write(folder)[1]], situation.at, registry, configuration)
    state = State(objects, now)
    explanation = explain(state, Scheduler(configuration, registry), situation.job)
    assert explanation is not None
    picture = inspect(state, Scheduler(configuration, registry)).picture
    return prospects(state, picture, explanation, registry, configuration)


@pytest.mark.parametrize("name", [*SITUATIONS, *JOBS])
def test_every_counterfactual_holds_in_the_simulator(name: str, tmp_path: Path) -> None:
    situation = (SITUATIONS | JOBS)[name]
    found = found_for(situation, tmp_path)
    assert starts_after(situation, None, tmp_path) == found.starts_now
    for one in found.counterfactuals:
        assert starts_after(situation, one.change, tmp_path), one.sentence
    assert [one.sentence for one in found.counterfactuals] == STARTS.get(name, [])


def test_a_job_that_starts_by_itself_needs_no_change(tmp_path: Path) -> None:
    """The nodes are reserved for another job, which does not drain them, and so it is this job's turn."""
    found = found_for(SITUATIONS["NodeResourceReserved"], tmp_path)
    assert (found.starts_now, found.counterfactuals) == (True, [])


def test_a_job_has_ended_when_its_waiting_pods_have_too(tmp_path: Path) -> None:
    """4 CPUs. `half` runs two of its three pods with 2 CPUs each; if only those ended, its third would go first."""
    scene = situation(
        "late", 5, node("n1", 4), *gang("half", 2, 2, 2, least=1), *gang("late", 2, 2, at=2)
    )  # fmt: skip
    assert "starts when default/half ends" in [one.sentence for one in found_for(scene, tmp_path).counterfactuals]


def test_only_jobs_whose_end_would_help_are_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A service runs on. That is no reason why a pod with a gate, or one larger than any node, does not start."""
    gated = with_spec(pod("gated", 1), schedulingGates=[{"name": "example.com/gate"}])
    for late in (gated, pod("large", 8)):
        scene = situation(late["metadata"]["name"], 5, node("n1", 4), pod("service", 1, on="n1"), late)
        assert "Expected    no start is in sight\n" in why(scene, tmp_path, capsys)


def test_amounts_of_one_sentence_have_one_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 8 CPUs times the overcommit factor 1.2 are 9.6; 6 of them are promised to the first job.
    scene = situation("late", 5, node("n1", 8), volcano_job("first", 1, 6), volcano_job("late", 1, 4))
    said = " ".join(why(scene, tmp_path, capsys, "--no-what-if").split())
    assert "insufficient cpu: 4 requested, and of 9.6 that may be promised" in said
    assert "3.6 is left" in said


def test_a_gang_without_all_of_its_pods_lacks_those_and_no_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two pods of 2 CPUs must start together. One of them exists, and there is room for it.
    scene = situation("few", 5, node("n1", 8), gang("few", 2, least=2))
    said = why(scene, tmp_path, capsys, "--no-what-if")
    assert "GangShort" not in said
    assert "Needs       2 pods together, of which 1 can be scheduled now: 2 cpu\n" in said
    assert "Fit now     1 of 1\n" in said


def test_pods_that_differ_do_not_request_something_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = situation("mixed", 5, node("n1", 8), gang("mixed", 6, 3))
    assert "Needs       2 pods together: 9 cpu\n" in why(scene, tmp_path, capsys, "--no-what-if")
    alike = situation("alike", 5, node("n1", 8), gang("alike", 5, 5))
    assert "Needs       2 pods together: 10 cpu (5 cpu each)\n" in why(alike, tmp_path, capsys, "--no-what-if")


def test_the_group_is_mentioned_if_it_has_more_pods_than_must_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 5 CPUs: one of the two pods of 3 CPUs that must start fits, and the group has three.
    scene = situation("big", 5, node("n1", 5), node("n2", 2), gang("big", 3, 3, 3, least=2))
    said = " ".join(why(scene, tmp_path, capsys, "--no-what-if").split())
    assert "Only 1 of the 2 pods that must start together (of 3 in the group) fit now. 1 of 2 nodes has room" in said


@pytest.mark.parametrize("asked", ["c", "x", "y-0"])
def test_a_group_inside_a_group(asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks about a part, or a pod of it, reads why the whole waits, in the words of these kinds."""
    groups = [
        composite("c", 2), workload_group("x", 2, parent="c", key="rack"), *members("x", 2),
        workload_group("y", 2, parent="c", key="rack"), *members("y", 2),
    ]  # fmt: skip
    scene = situation(asked, 5, node("n1", 4, labels={"rack": "a"}), pod("old", 1, on="n1"), *groups)
    said = " ".join(why(scene, tmp_path, capsys, "--no-what-if").split())
    assert said.startswith("default/c has waited for 5s")
    assert "For PodGroup y, beside those that fit, no domain by the label rack has room for all 2 pods" in said
    assert "Lower minGroupCount, request less for each pod, or wait until pods finish." in said
    assert "sub-group" not in said
    assert "minSubGroups" not in said


def test_groups_that_start_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = [composite("c", None), *(workload_group(name, 1, parent="c") for name in "xy"), *members("x", 1)]
    options = situation("c", 5, node("n1", 4), *groups).write(tmp_path)
    assert run(["why", "c", *options]) == 2
    said = "The groups of CompositePodGroup default/c start one by one: ask about default/x, or default/y."
    assert said in capsys.readouterr().err


def test_the_next_step_names_the_fields_of_the_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of three pods have room, each time, until another one ends."""
    nodes = [node("n1", 4), node("n2", 4), node("n3", 4), pod("old", 2, on="n3")]
    for documents, field in (
        ([volcano_job("wide", 3, 3)], "minAvailable"),
        (gang("wide", 3, 3, 3), "minMember"),
        ([workload_group("wide", 3), *members("wide", 3, 3)], "minCount"),
    ):
        scene = situation("wide", 5, *nodes, *documents)
        assert f"Next step   Lower {field}, request less" in why(scene, tmp_path, capsys, "--no-what-if")


def test_gangs_that_wait_for_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has one of its two pods on a node that is full. After 600 s the second one is evicted."""
    scene = situation("first", 60, node("n1", 2), queue("a"), queue("b"), half("first", queue="a"),
                      half("second", queue="b"))  # fmt: skip
    said = " ".join(why(scene, tmp_path, capsys).split())
    assert (
        "GangDeadlock default/second and default/first lack pods that they need, and each holds what the other waits "
        "for. default/second is evicted so that default/first can be completed, once it has waited for 10m "
        "(gangDeadlockTimeout of the plugin gang), at 2000-01-01T00:10:00Z."
    ) in said
    assert "Next step Delete one of them, or wait until default/second is evicted." in said
    assert "Expected starts about 2000-01-01T00:10:02Z (in 9m2s)" in said
    assert "starts when default/second ends" in said


def test_amounts_that_no_unit_divides_are_rounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16Gi times the overcommit factor 1.2 are 20615843020 bytes."""
    scene = situation(
        "late", 5, node("n1", 8, memory="16Gi"), volcano_job("first", 1, 1, pods=_memory("12Gi")),
        volcano_job("late", 1, 1, pods=_memory("8Gi")),
    )  # fmt: skip
    said = " ".join(why(scene, tmp_path, capsys).split())
    assert "8Gi requested, and of 19.2Gi that may be promised" in said
    assert "7.2Gi is left" in said


def _memory(amount: str) -> dict[str, object]:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1, "memory": amount}}}]}


def test_a_missing_job_of_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = situation("nobody", 5, node("n1", 4)).write(tmp_path)
    assert run(["why", "nobody", *options]) == 2
    again = f"stromboli jobs --scenario {options[1]} --at 5s"
    assert capsys.readouterr().err == f"stromboli: error: There is no job default/nobody. Try: {again}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("trainig", "default/training"), ("jbo/training", "job/training"), ("lab/training", "default/training")],
)
def test_a_name_that_is_almost_right(
    typed: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = situation("training", 5, node("n1", 4), pod("training", 8)).write(tmp_path)
    assert run(["why", typed, *options]) == 2
    assert f"; did you mean {meant}? Try: stromboli jobs" in capsys.readouterr().err


def test_what_a_deployment_has_made_is_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Deployment is no job itself: its ReplicaSet is."""
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}},
        },
    }  # fmt: skip
    options = situation("web", 5, node("n1", 4), pod("wed", 8), deployment).write(tmp_path)
    assert run(["why", "web", *options]) == 2
    assert "; did you mean default/web-" in capsys.readouterr().err


def test_a_kind_before_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands before the slash is a namespace, if there is such a job."""
    options = situation("training", 5, node("n1", 4), volcano_job("training", 1, 8)).write(tmp_path)
    for typed in ("job/training", "vcjob/training", "Jobs/training"):
        assert run(["why", typed, "--no-what-if", *options]) == 0
        assert capsys.readouterr().out.startswith("default/training has waited")


def test_a_job_that_was_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = volcano_job("late", 1, 1, queue="closed")
    closed = {**queue("closed"), "status": {"state": "Closed"}}
    options = situation("late", 5, node("n1", 4), closed, late).write(tmp_path)
    for typed in ("late", "job/late"):
        assert run(["why", typed, *options]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith("default/late was refused when it was submitted, so it does not exist.")
        assert 'spec.queue: the queue "closed" is Closed, so it accepts no jobs. Next step Correct that' in said
    assert run(["why", "late", *options, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "default/late"


def test_a_pod_of_another_scheduler_is_not_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = with_spec(pod("theirs", 1), schedulerName="default-scheduler")
    options = situation("theirs", 1, node("n1", 4), other).write(tmp_path)
    assert run(["why", "theirs", *options]) == 2
    assert capsys.readouterr().err == (
        "stromboli: error: Pod default/theirs has schedulerName default-scheduler, not volcano; or is it "
        "--scheduler-name default-scheduler?\n"
    )


def test_a_pod_and_its_group_are_the_same_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gang = SITUATIONS["GangShort"]
    options = gang.write(tmp_path)
    found = set()
    for name in ("big", "default/big", "big-1"):
        assert run(["why", name, *options, "--no-what-if"]) == 0
        found.add(capsys.readouterr().out)
    assert len(found) == 1


def test_a_job_that_comes_later_in_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = volcano_job("wide", 1, 1)
    late["metadata"]["annotations"] = {"sim.stromboli.io/at": "90s"}
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(late), encoding="utf-8")
    assert run(["why", "default/wide", "--scenario", str(file)]) == 2
    assert capsys.readouterr().err == (
        "stromboli: error: default/wide is submitted at 1m30s of the scenario. "
        f"Try: stromboli why default/wide --scenario {file} --at 1m30s\n"
    )
    assert run(["why", "default/wide", "--scenario", str(file), "--at", "90s"]) == 0
