"""Nodes cease to offer resources that pods use, ask for, and that Reservations hold: the books stay whole, a restart
finds the same ones, and everybody reads the real names."""

from __future__ import annotations

import json

import pytest

from starvation.scenes import group, node, patch, pod, queue, restart
from together.situations import Document, Report, Situation, configuration

TPU, FPGA, NPU = "x.io/tpu", "x.io/fpga", "x.io/npu"


def with_request(document: Document, resource: str, amount: int) -> Document:
    document["spec"]["containers"][0]["resources"]["requests"][resource] = amount
    return document


def reservation(name: str, resource: str, amount: int, *, at: float = 0, **spec: str) -> Document:
    requests, notes = {"cpu": 1, resource: amount}, {"sim.stromboli.io/at": f"{at}s"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": name, "annotations": notes},
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": "report"}}}], **spec,
        },
    }  # fmt: skip


def offered(name: str, at: float, **amounts: int | None) -> Document:
    return patch("Node", name, {"status": {"allocatable": amounts}}, at=at)


def story(tree: bool) -> list[Document]:
    """Of 3 TPUs at n0, two pods use one each and a Reservation holds the third; n1 has an FPGA that a pod uses. The
    TPUs are lost at 3 s and back at 7 s, the FPGA is lost for ever. One pod brings a name of its own."""
    root = {"parent": "root"} if tree else {}
    return [
        node("n0", 8, **{TPU: 3}), node("n1", 8, **{FPGA: 1}),
        queue("q", capability={"cpu": 6, TPU: 2}, **root),
        *(with_request(pod(f"tpu-{number}", 1, queue="q"), TPU, 1) for number in range(2)),
        with_request(pod("fpga", 1), FPGA, 1),
        with_request(pod("brings", 1, on="n1"), NPU, 2),
        reservation("holds", TPU, 1, ttl="6s"),
        offered("n0", 3, **{TPU: None}), offered("n1", 3, **{FPGA: None}),
        with_request(pod("tpu-late", 1, queue="q", at=4), TPU, 1),
        with_request(pod("npu-late", 1, at=4), NPU, 1),
        reservation("late", FPGA, 1, at=4),
        group("kept-out", 1, at=4) | {"spec": {"minMember": 1, "minResources": {"cpu": 1, FPGA: 2}}},
        offered("n0", 7, **{TPU: 3}),
    ]  # fmt: skip


def run(until: float, *, tree: bool = False, restarts: bool = False) -> Report:
    times = range(int(until) + 1) if restarts else ()
    restarted = [restart(second, "scheduler") for second in times]
    config = configuration(tree=True) if tree else None
    if config is not None:
        config["tiers"][1]["plugins"].append({"name": "reservation"})
    return Situation([*story(tree), *restarted], config, until).run()


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("until", [3, 5, 6, 8, 12])
def test_a_restart_finds_the_same_books(until: float, tree: bool) -> None:
    assert run(until, tree=tree, restarts=True) == run(until, tree=tree)


def test_what_pods_use_is_counted_though_no_node_offers_it() -> None:
    report = run(5)

    assert report["nodes"]["n0"]["used"] == {"cpu": "2", TPU: "2"}
    assert report["nodes"]["n1"]["used"] == {"cpu": "2", FPGA: "1", NPU: "2"}
    assert report["queues"]["q"]["allocated"] == {"cpu": "2", TPU: "2"}
    assert report["queues"]["default"]["allocated"] == {"cpu": "2", FPGA: "1", NPU: "2"}
    assert report["namespaces"]["q/default"]["allocated"] == {"cpu": "2", TPU: "2"}
    warned = {(one["t"], one["message"]) for one in report["events"] if one["reason"] == "Overcommitted"}
    assert (3.0, f"Its pods request 1 {FPGA}, 2 {NPU} more than the node offers.") in warned


@pytest.mark.parametrize("tree", [False, True])
def test_everybody_reads_the_real_names(tree: bool) -> None:
    for until in (3, 5, 8):
        assert "<unoffered>" not in json.dumps(run(until, tree=tree))


@pytest.mark.parametrize("tree", [False, True])
def test_nobody_waits_for_a_share_of_what_no_node_offers(tree: bool) -> None:
    # A pod uses NPUs that no node offers, and an FPGA that no node offers any more: no share of them can be had.
    report = run(5, tree=tree)

    waiting = report["pods"]["default/npu-late"]
    assert (waiting["reason"], f"1 {NPU} requested" in waiting["message"]) == ("InsufficientNode", True)
    waiting = report["reservations"]["late"]
    assert (waiting["reason"], f"1 {FPGA} requested" in waiting["message"]) == ("InsufficientNode", True)
    (condition,) = [one for one in report["podGroups"]["default/kept-out"]["conditions"] if one["status"] == "True"]
    assert f"2 {FPGA} requested, and the cluster has 0" in condition["message"]


def test_a_resource_that_is_offered_again_is_divided_again() -> None:
    # The queue may have 2 TPUs and has them; the Reservation is over.
    report = run(12)

    assert report["pods"]["default/tpu-late"]["reason"] == "QueueOverQuota"
    assert report["nodes"]["n0"]["used"] == {"cpu": "2", TPU: "2"}
    assert report["queues"]["q"]["deserved"][TPU] == "2"
