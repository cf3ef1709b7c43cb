"""Reclaim where one resource is scarce and others are not, and from pods larger than what was lent."""

from __future__ import annotations

from starvation.scenes import Document, gang, node, pod, priority_class, queue, scene

GPU = "nvidia.com/gpu"


def _node(name: str, cpu: int, gpus: int) -> Document:
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "768Gi", GPU: gpus}},
    }  # fmt: skip


def _pod(name: str, queue: str, gpus: int = 1, *, cpu: int = 1, group: str = "", at: int = 0) -> Document:
    notes = {"scheduling.volcano.sh/queue-name": queue, "sim.stromboli.io/at": f"{at}s"}
    if group:
        notes["scheduling.k8s.io/group-name"] = group
    requests = {"cpu": cpu, "memory": "1Gi", GPU: gpus}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests, "limits": {GPU: gpus}}}]},
    }  # fmt: skip


def _group(name: str, queue: str, members: int, at: int) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "annotations": {"sim.stromboli.io/at": f"{at}s"}},
        "spec": {"minMember": members, "queue": queue},
    }  # fmt: skip


# 8 nodes of 96 CPUs and 8 GPUs. Queue a holds all 64 GPUs with pods of one; b deserves half of them, and its gang of 32
# comes at 5 s. Nobody is short of CPU or memory: 96 of 768 CPUs are requested in all.
def test_a_queue_gets_its_gpus_back_though_cpu_and_memory_abound() -> None:
    held = [_pod(f"a-{number:02}", "a") for number in range(64)]
    wanted = [_pod(f"b-{number:02}", "b", group="big", at=5) for number in range(32)]
    outcome = scene(
        queue("a"), queue("b"), *[_node(f"n{number}", 96, 8) for number in range(8)], *held,
        _group("big", "b", 32, 5), *wanted, until=8,
    ).run()  # fmt: skip
    assert len(outcome.happened("Evicted")) == 32
    assert {outcome.started[pod["metadata"]["name"]] for pod in wanted} == {6}


# Weights 6 and 2 on 8 GPUs, one pod of the first queue has all of them. It stands on lent room from the seventh GPU on,
# so the second queue gets its 2.
def test_lent_gpus_are_had_back_from_a_pod_that_holds_all() -> None:
    outcome = scene(
        queue("a", weight=6), queue("b", weight=2), _node("n1", 96, 8), _pod("large", "a", 8),
        _group("small", "b", 2, 5), *[_pod(f"b-{number}", "b", group="small", at=5) for number in range(2)], until=10,
    ).run()  # fmt: skip
    assert outcome.happened("Evicted") == [(5.0, "large")]
    assert outcome.started["b-0"] == outcome.started["b-1"] == 6


# 16 CPUs and 8 GPUs. Queue a has 8 of each, b the other 8 CPUs, which is all it deserves of them. It deserves 4 GPUs as
# well and has none; its pods that come at 5 s request one of each. Only GPUs are contended, so each takes one from a.
# Queue a then lacks CPUs, but its pods need GPUs, of which it has no more than it deserves: the exchange ends there.
def test_a_queue_with_its_cpus_gets_its_gpus_back() -> None:
    outcome = scene(
        queue("a"), queue("b"), _node("n1", 8, 4), _node("n2", 8, 4), *[_pod(f"a-{n}", "a") for n in range(8)],
        *[_pod(f"b-{n}", "b", 0) for n in range(8)], *[_pod(f"claims-{n}", "b", at=5) for n in range(4)], until=30,
    ).run()  # fmt: skip
    evicted = [name for _, name in outcome.happened("Evicted")]
    assert len(evicted) == 4
    assert all(name.startswith("a-") for name in evicted)
    assert {outcome.started[f"claims-{number}"] for number in range(4)} == {6}


# One node of three CPUs, full with three pods of a job of which one suffices. Urgent pods evict the last ones; the
# first pod of the job, often its master, goes last.
def test_the_last_pod_of_a_job_goes_first() -> None:
    documents = [priority_class("high", 100), node("n1", 3), *gang("job", 1, 1, 1, least=1)]
    urgent = [pod(f"urgent-{number}", 1, at=5, priority="high") for number in range(2)]
    outcome = scene(documents, urgent, until=9).run()
    assert [name for _, name in outcome.happened("Evicted")] == ["job-2", "job-1"]


# Of several pods of one rank the smallest that suffices goes: 2 of 1, 2 and 4 CPUs.
def test_the_smallest_pod_that_suffices_goes() -> None:
    documents = [priority_class("high", 100), node("n1", 7), *[pod(f"p{cpu}", cpu) for cpu in (1, 2, 4)]]
    outcome = scene(documents, pod("urgent", 2, at=5, priority="high"), until=9).run()
    assert [name for _, name in outcome.happened("Evicted")] == ["p2"]
