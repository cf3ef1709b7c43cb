"""`stromboli plan`: what a submission would do, and nothing that happens anyway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.situations import Document, Situation, situation, volcano_job
from starvation.scenes import gang, node, pod, priority_class, queue
from stromboli.api import KObject, Namespace, ObjectMeta, Pod
from stromboli.console.main import run
from stromboli.console.whatif.counterfactuals import LEAST_TRIALS, MOST_TRIALS, most_trials
from stromboli.console.whatif.submission import plan_submission
from stromboli.insight import State
from stromboli.scheduling.registry import Registry
from workload_groups.scenes import composite, member, members, workload_group


def planned(
    of: Situation, folder: Path, capsys: pytest.CaptureFixture[str], *documents: Document
) -> dict[str, Any] | list[dict[str, Any]]:
    file = folder / "submitted.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    status = run(["plan", "-f", str(file), *of.write(folder), "-o", "json"])
    said = capsys.readouterr()
    assert status == 0, said.err
    found: dict[str, Any] | list[dict[str, Any]] = json.loads(said.out)
    return found


def plan(of: Situation, folder: Path, capsys: pytest.CaptureFixture[str], *documents: Document) -> dict[str, Any]:
    found = planned(of, folder, capsys, *documents)
    assert isinstance(found, dict)
    return found


def test_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = situation("x", 3, node("n1", 2), node("n2", 2))
    found = plan(free, tmp_path, capsys, volcano_job("new", 2, 2))
    assert found["startsNow"]
    assert found["placements"] == {"default/new-main-0": "n1", "default/new-main-1": "n2"}
    assert "reasons" not in found


def test_it_evicts_only_whom_others_would_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At 4 s urgent-0 is about to evict one pod anyway; the submitted pod evicts another one."""
    busy = situation(
        "x", 4, node("n1", 2), node("n2", 2), priority_class("high", 100), pod("low-1", 2, on="n1"),
        pod("low-2", 2, on="n2"), pod("urgent-0", 2, at=4, priority="high"),
    )  # fmt: skip
    found = plan(busy, tmp_path, capsys, pod("urgent-1", 2, priority="high"))
    assert found["startsNow"]
    assert len(found["evictions"]) == 1
    assert found["evictions"][0]["reason"] == "Preempted"


def test_an_expected_start_says_what_was_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = situation("x", 4, node("n1", 4), pod("old", 2, on="n1", run=60), pod("service", 1, on="n1"))
    found = plan(busy, tmp_path, capsys, pod("late", 3))
    assert found["expectedStart"] == "2000-01-01T00:01:00Z"
    assert found["reasons"][0]["code"] == "InsufficientNode"
    assert "1 of 2 running jobs end when they say, and the others run on" in found["assumptions"]
    # The same, and 4 CPUs: never.
    found = plan(busy, tmp_path, capsys, pod("late", 4))
    assert found["expectedStart"] is None


def test_a_queue_that_does_not_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = situation("x", 1, node("n1", 4), queue("parent"), queue("child", parent="parent"))
    assert plan(empty, tmp_path, capsys, volcano_job("new", 1, 1, queue="nowhere"))["refused"] == (
        'spec.queue: there is no queue "nowhere"'
    )  # fmt: skip


def test_several_jobs_and_what_they_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new queue and two jobs in it, of which one fits."""
    empty = situation("x", 1, node("n1", 4))
    found = planned(
        empty, tmp_path, capsys, queue("new"), *gang("first", 2, 2, queue="new"),
        volcano_job("second", 1, 1, queue="new"),
    )  # fmt: skip
    assert isinstance(found, list)
    assert [(one["job"], one["startsNow"]) for one in found] == [("default/first", True), ("default/second", False)]


def test_a_group_of_kubernetes_is_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both pods fit on n1 and n2 only together; a third one joins the group that the first two are."""
    free = situation("x", 3, node("n1", 2), node("n2", 3))
    pair = [workload_group("pair", 2), *members("pair", 2, 2)]
    found = plan(free, tmp_path, capsys, *pair)
    assert (found["job"], found["startsNow"]) == ("default/pair", True)
    assert found["placements"] == {"default/pair-0": "n2", "default/pair-1": "n1"}
    # Three pods of two CPUs each do not fit.
    found = plan(free, tmp_path, capsys, workload_group("trio", 3), *members("trio", 3, 2))
    assert (found["job"], found["expectedStart"]) == ("default/trio", None)
    assert found["reasons"][0]["code"] == "GangShort"
    assert "Lower minCount" in found["reasons"][0]["nextStep"]
    # One more for a group that runs.
    busy = situation("x", 3, node("n1", 3), node("n2", 2), *pair)
    found = plan(busy, tmp_path, capsys, member("pair-2", "pair", 1))
    assert (found["job"], found["startsNow"]) == ("default/pair", True)
    # For one that does not exist.
    found = plan(free, tmp_path, capsys, member("x-0", "x"))
    assert (found["job"], found["reasons"][0]["code"]) == ("default/x", "NoPodGroup")


def test_groups_of_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two replicas of two pods each start together, and a third one by itself. Where they need not start together,
    each is a job of its own."""
    replicas = [
        document
        for name in "xyz"
        for document in (workload_group(name, 2, parent="c"), *members(name, 2))
    ]  # fmt: skip
    found = planned(situation("s", 3, node("n1", 4)), tmp_path, capsys, composite("c", 2), *replicas)
    assert isinstance(found, list)
    assert [(one["job"], one["startsNow"], len(one["placements"])) for one in found] == [
        ("default/c", True, 4), ("default/z", False, 0),
    ]  # fmt: skip
    found = planned(situation("s", 3, node("n1", 4)), tmp_path, capsys, composite("c", None), *replicas)
    assert isinstance(found, list)
    assert [(one["job"], one["startsNow"]) for one in found] == [
        ("default/x", True), ("default/y", True), ("default/z", False),
    ]  # fmt: skip
    # All of it waits for room, and starts as a whole.
    busy = situation("s", 4, node("n1", 4), pod("old", 2, on="n1", run=60))
    found = plan(busy, tmp_path, capsys, composite("c", 2), *replicas[:6])
    assert (found["job"], found["startsNow"], found["expectedStart"]) == ("default/c", False, "2000-01-01T00:01:00Z")
    assert len(found["placements"]) == 4


def test_two_groups_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = situation("x", 3, node("n1", 4))
    found = planned(free, tmp_path, capsys, *gang("g", 1, 1), workload_group("g", 1), *members("g", 1, first=7))
    assert isinstance(found, list)
    assert [(one["job"], one["placements"]) for one in found] == [
        ("default/g", {"default/g-0": "n1", "default/g-1": "n1"}),
        ("default/g@scheduling.k8s.io", {"default/g-7": "n1"}),
    ]  # fmt: skip


def test_text_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "submitted.yaml"
    file.write_text(json.dumps(queue("q")), encoding="utf-8")
    empty = situation("x", 1, node("n1", 4))
    assert run(["plan", "-f", str(file), *empty.write(tmp_path)]) == 2
    assert "has no job; give a Job, PodGroup, ReplicaSet or Pod." in capsys.readouterr().err
    file.write_text(json.dumps(volcano_job("new", 1, 1, queue="nowhere")), encoding="utf-8")
    assert run(["plan", "-f", str(file), *empty.write(tmp_path)]) == 0
    assert capsys.readouterr().out == 'default/new would not start: spec.queue: there is no queue "nowhere"\n'


def test_fewer_trials_on_large_clusters() -> None:
    assert [most_trials(objects) for objects in (0, 3_000, 10_000, 1_000_000)] == [
        MOST_TRIALS, MOST_TRIALS, 15, LEAST_TRIALS,
    ]  # fmt: skip


def test_an_api_server_creates_nothing_in_a_missing_namespace() -> None:
    """A scenario needs no namespaces; a cluster does. Somebody who may not list them gets an answer without."""
    registry = Registry()
    wanted = Pod(metadata=ObjectMeta(name="new", namespace="lab"))
    for known, refused in ((["default"], True), (["default", "lab"], False), ([], False)):
        namespaces: list[KObject] = [Namespace(metadata=ObjectMeta(name=name)) for name in known]
        state = State(namespaces, 1000.0)
        found = plan_submission(state, [wanted], "lab/new", registry, registry.default(), is_live=True)
        assert ("There is no namespace lab;" in found.refused) == refused
