"""Work for thousands of objects is done in turns: others have theirs in between, and requests are answered."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.api import Api, EmbeddedTransport
from embedded.conformance_kinds import replica_set
from stromboli.controllers.workloads import replica_sets
from stromboli.embedded.upkeep import Upkeep
from stromboli.embedded.upkeep.turn import WRITES

SETS = "/apis/apps/v1/namespaces/{}/replicasets"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
MANY = 1000
MOST = 4 * WRITES  # commits of all controllers in one turn: pods, their finalizers, and statuses


@pytest.fixture
def server() -> EmbeddedTransport:
    return EmbeddedTransport()


@pytest.fixture
def api(server: EmbeddedTransport) -> Api:
    api = Api(server)
    for name in ("crowd", "team"):
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    server.settle()
    return api


def job(many: int, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}}
    return {
        "metadata": {"name": "one"},
        "spec": {"parallelism": many, "completions": many, "template": template, **spec},
    }


def pods(server: EmbeddedTransport, namespace: str) -> int:
    return len(server.store.list("pods", namespace))


def longest_turn(server: EmbeddedTransport) -> int:
    """Let the controllers come to an end. The largest number of commits in one turn."""
    longest = 0
    for _ in range(1000):
        before = server.store.version
        if not server.upkeep.turn(server.now):
            return longest
        longest = max(longest, server.store.version - before)
    raise AssertionError("the controllers never come to an end")


def test_a_set_has_its_pods_after_the_first_turn_beside_a_large_one(server: EmbeddedTransport, api: Api) -> None:
    api.create(SETS.format("crowd"), replica_set(replicas=MANY))
    api.create(SETS.format("team"), replica_set(replicas=2))
    api.create(JOBS.format("team"), job(2))
    server.upkeep.turn(server.now)
    assert pods(server, "team") == 4
    assert 0 < pods(server, "crowd") <= WRITES
    assert longest_turn(server) <= MOST
    assert pods(server, "crowd") == MANY
    assert api.get(f"{SETS.format('crowd')}/set")["status"]["replicas"] == MANY


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("kind", [SETS, JOBS])
def test_a_large_owner_goes_in_turns(server: EmbeddedTransport, api: Api, kind: str, propagation: str) -> None:
    path = kind.format("crowd")
    owner = api.create(path, replica_set(replicas=MANY) if kind == SETS else job(MANY))
    assert longest_turn(server) <= MOST
    assert pods(server, "crowd") == MANY
    api.delete(f"{path}/{owner['metadata']['name']}", {"propagationPolicy": propagation})
    assert longest_turn(server) <= MOST
    assert api.get(path)["items"] == []
    left = server.store.list("pods", "crowd")
    assert len(left) == (MANY if propagation == "Orphan" else 0)
    assert not any(record.metadata.owner_references or record.metadata.finalizers for record in left)


def test_a_large_set_shrinks_in_turns(server: EmbeddedTransport, api: Api) -> None:
    api.create(SETS.format("crowd"), replica_set(replicas=MANY))
    server.settle()
    api.patch(f"{SETS.format('crowd')}/set/scale", {"spec": {"replicas": 3}})
    assert longest_turn(server) <= MOST
    assert pods(server, "crowd") == 3


@pytest.mark.parametrize("spec", [{"suspend": True}, {"activeDeadlineSeconds": 10}])
def test_a_large_job_stops_in_turns(server: EmbeddedTransport, api: Api, spec: dict[str, Any]) -> None:
    api.create(JOBS.format("crowd"), job(MANY))
    server.settle()
    api.patch(f"{JOBS.format('crowd')}/one", {"spec": spec})
    server.now += 11
    assert longest_turn(server) <= MOST
    assert pods(server, "crowd") == 0
    status = api.get(f"{JOBS.format('crowd')}/one")["status"]
    assert "active" not in status


def test_a_large_indexed_job_is_counted_in_turns(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS.format("crowd"), job(MANY, completionMode="Indexed"))
    server.settle()
    for record in server.store.list("pods", "crowd"):
        value = record.value()
        server.store.put(record.key, {**value, "status": {"phase": "Succeeded"}})
    assert longest_turn(server) <= MOST
    status = api.get(f"{JOBS.format('crowd')}/one")["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (MANY, f"0-{MANY - 1}")
    assert [one["type"] for one in status["conditions"]] == ["Complete"]


def test_a_large_namespace_goes_in_turns(server: EmbeddedTransport, api: Api) -> None:
    api.create(SETS.format("crowd"), replica_set(replicas=MANY))
    server.settle()
    api.delete("/api/v1/namespaces/crowd")
    assert longest_turn(server) <= MOST
    assert api.call("GET", "/api/v1/namespaces/crowd").status == 404
    assert pods(server, "crowd") == 0


def test_the_pods_of_a_first_budget_are_read_in_turns(server: EmbeddedTransport, api: Api) -> None:
    created = api.create(SETS.format("crowd"), replica_set(replicas=MANY))
    server.settle()
    selector = created["spec"]["selector"]
    api.create(BUDGETS.format("crowd"), {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}})
    server.upkeep.turn(server.now)
    assert api.get(f"{BUDGETS.format('crowd')}/b")["status"]["expectedPods"] == 0
    server.settle()
    assert api.get(f"{BUDGETS.format('crowd')}/b")["status"]["expectedPods"] == MANY
    api.patch(f"{SETS.format('crowd')}/set/scale", {"spec": {"replicas": 10}})
    server.settle()
    assert api.get(f"{BUDGETS.format('crowd')}/b")["status"]["expectedPods"] == 10


def test_more_pods_than_one_object_may_have_are_refused(server: EmbeddedTransport, api: Api) -> None:
    million = 1_000_000
    indexed = job(1, completionMode="Indexed")
    indexed["spec"]["completions"] = million
    refused = [
        (SETS, replica_set(replicas=million), "spec.replicas"),
        (JOBS, job(million), "spec.parallelism"),
        (JOBS, indexed, "spec.completions"),
    ]
    for path, body, field in refused:
        answer = api.call("POST", path.format("team"), body)
        assert answer.status == 422
        assert f"{field}: Invalid value: 1000000: must be at most 50000" in answer.body["message"]
    api.create(SETS.format("team"), replica_set(replicas=1))
    for path, patch in (("set/scale", {"spec": {"replicas": million}}), ("set", {"spec": {"replicas": million}})):
        answer = api.call("PATCH", f"{SETS.format('team')}/{path}", patch, kind="application/merge-patch+json")
        assert answer.status == 422, path
    api.create(JOBS.format("team"), job(1, completions=million, parallelism=1))
    server.settle()
    assert pods(server, "team") == 2


def test_a_set_that_was_stored_before_there_was_a_limit_stops_at_it(server: EmbeddedTransport, api: Api) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replica_sets, "MAX_JOB_REPLICAS", 5)
        api.create(SETS.format("team"), replica_set(replicas=7))
        server.settle()
    assert pods(server, "team") == 5


def test_pods_that_nobody_counts_any_more_are_let_go_after_a_restart(server: EmbeddedTransport, api: Api) -> None:
    """Given a process that ended between the deletion of a Job and the release of its pods."""
    created = api.create(JOBS.format("crowd"), job(3))
    server.settle()
    api.delete(f"{JOBS.format('crowd')}/one", {"propagationPolicy": "Orphan"})
    (owner,) = server.store.list("jobs.batch", "crowd")
    server.store.delete(owner.key)
    assert all(record.metadata.finalizers for record in server.store.list("pods", "crowd"))
    server.upkeep = Upkeep(server.server)
    server.settle()
    assert created["metadata"]["uid"] == owner.metadata.uid
    assert pods(server, "crowd") == 0


def test_a_pod_of_another_namespace_is_not_counted(server: EmbeddedTransport, api: Api) -> None:
    owner = api.create(SETS.format("team"), replica_set(replicas=2))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": owner["metadata"]["uid"]}
    pod = {
        "metadata": {"name": "forged", "ownerReferences": [{**reference, "controller": True}]},
        "spec": {"containers": [{"name": "main", "image": "x:1"}]},
    }
    api.create("/api/v1/namespaces/crowd/pods", pod)
    server.settle()
    assert pods(server, "team") == 2


def test_nothing_is_kept_about_owners_that_are_gone(server: EmbeddedTransport, api: Api) -> None:
    owner = api.create(JOBS.format("team"), job(2))
    server.settle()
    for record in server.store.list("pods", "team"):
        server.store.put(record.key, {**record.value(), "status": {"phase": "Failed"}})
    server.settle()
    known = server.upkeep._workloads._controllers._pods
    assert known.of("Job", "team", "one", owner["metadata"]["uid"]).last_failure is not None
    api.delete(f"{JOBS.format('team')}/one", {"propagationPolicy": "Background"})
    server.settle()
    assert pods(server, "team") == 0
    assert (known._owners, known._uids, known._gone) == ({}, {}, set())
