"""With every process of ours down, the API server refuses what it should, and nothing else.

Objects with mistakes are sent as dry runs: the server and the rules in Python give one verdict about each, and name one
field. What depends on other objects or on a deletion is tried one by one. The fixtures `door`, a client of
a server with our definitions and policies, and `namespace` say which server: tests/kube has a kube-apiserver, and
tests/embedded the embedded one.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import Client, Refused, eventually
from kube.test_rules import PATHS, refusal_of
from stromboli.api import ApiError, Queue, validate_submission
from validation.anywhere import compare_changed, compare_created
from validation.mutations import mutated
from validation.verdicts import compare

QUEUES, GROUPS, JOBS, PODS = PATHS["Queue"], PATHS["PodGroup"], PATHS["Job"], PATHS["Pod"]
CRON_JOBS = PATHS["CronJob"]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
OBJECTS = 400  # by hand, benchmarks/refusals.py compares ten thousand
BAD: dict[str, Any] = {"plugins": {"magic": []}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"minMember": 1, **spec},
    }  # fmt: skip


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"tasks": [{"name": "a", "replicas": 2, "template": TEMPLATE}], **spec},
    }  # fmt: skip


def pod(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x"}], **spec},
    }  # fmt: skip


# -- objects by themselves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_server_and_the_rules_agree(seed: int, door: Client, namespace: str) -> None:
    seen: Counter[str] = Counter()
    for document in mutated(5000 + seed, OBJECTS):
        seen[compare(document, namespace, door)] += 1
    assert min(seen["refused"], seen["accepted"]) > OBJECTS // 20


@pytest.mark.parametrize("compared", [compare_created, compare_changed])
def test_they_agree_wherever_an_object_is_wrong(compared: Any, door: Client, namespace: str) -> None:
    seen = compared(6000, OBJECTS, door, namespace)
    assert min(seen["refused"], seen["accepted"]) > OBJECTS // 5
    assert seen["refused for two reasons"] <= OBJECTS // 50


# -- objects among others ----------------------------------------------------------------------------------------


@pytest.fixture
def queues(door: Client) -> Iterator[Client]:
    """A queue that is closed, one with a queue below it, and one that is open."""
    for name, spec in (
        ("door-closed", {}),
        ("door-open", {}),
        ("door-parent", {}),
        ("door-child", {"parent": "door-parent"}),
    ):
        door.create(QUEUES, queue(name, **spec))
    door.patch(f"{QUEUES}/door-closed/status", {"status": {"state": "Closed"}})
    yield door
    for name in ("door-child", "door-closed", "door-open", "door-parent"):
        eventually(lambda name=name: is_deleted(door, f"{QUEUES}/{name}"))


def is_deleted(door: Client, path: str) -> bool:
    try:
        door.delete(path)
    except Refused as refused:
        return refused.reason == "NotFound"
    return True


@pytest.mark.parametrize(("kind", "what"), [(job, "jobs"), (group, "groups")])
def test_queues_that_accept_nothing(kind: Any, what: str, queues: Client, namespace: str) -> None:
    path = (JOBS if what == "jobs" else GROUPS).format(namespace)
    for name, state, has_children in (("door-closed", "Closed", False), ("door-parent", "Open", True)):
        with pytest.raises(ApiError) as raised:
            validate_submission(name, what, _with_state(state), has_children=has_children)
        sentence = f"{raised.value.field}: {raised.value.message}"
        eventually(lambda name=name, sentence=sentence: sentence in refusal_of(queues, path, kind("j", queue=name)))
    assert refusal_of(queues, path, kind("j", queue="door-open")) == ""
    assert refusal_of(queues, path, kind("j", queue="nobody-made-it-yet")) == "", "such objects wait"


def _with_state(state: str) -> Queue:
    one = Queue()
    one.status.state = state
    return one


def test_groups_of_owners_are_judged_with_their_owners(queues: Client, namespace: str) -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"}
    owned = group("g", queue="door-closed") | {"metadata": {"name": "g", "ownerReferences": [owner]}}
    path = GROUPS.format(namespace)
    eventually(lambda: refusal_of(queues, path, group("g", queue="door-closed")))
    assert refusal_of(queues, path, owned) == ""


def test_queues_that_are_needed_are_not_deleted(queues: Client) -> None:
    eventually(lambda: "door-child is below it" in _deletion(queues, "door-parent"))
    queues.patch(f"{QUEUES}/door-open/status", {"status": {"running": 2, "pending": 1}})
    assert "3 PodGroups that have not ended" in _deletion(queues, "door-open")
    queues.patch(f"{QUEUES}/door-open/status", {"status": {"running": 0, "pending": 0}})
    assert _deletion(queues, "door-open") == ""
    for name in ("default", "root"):
        with contextlib.suppress(Refused):  # it exists
            queues.create(QUEUES, queue(name))
        assert "cannot be deleted" in _deletion(queues, name)


def _deletion(door: Client, name: str) -> str:
    try:
        door.delete(f"{QUEUES}/{name}", dryRun="All")
    except Refused as refused:
        return str(refused)
    return ""


# -- objects that change -----------------------------------------------------------------------------------------


def test_the_jobs_of_a_cron_job_can_change(door: Client, namespace: str) -> None:
    path, template = CRON_JOBS.format(namespace), job("")["spec"]
    written = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": template}},
    }  # fmt: skip
    door.create(path, written)
    others = {"image": "newer", "name": "c"}
    tasks = [{"name": "b", "replicas": 3, "maxRetry": 1, "template": {"spec": {"containers": [others]}}}]
    changed = {"queue": "other", "plugins": {"svc": []}, "runningEstimate": "1h", "tasks": tasks}
    made = door.patch(f"{path}/nightly", {"spec": {"jobTemplate": {"spec": changed}}})
    assert made["spec"]["jobTemplate"]["spec"]["queue"] == "other"
    assert "must not have two tasks" in _patched(
        door, f"{path}/nightly", {"spec": {"jobTemplate": {"spec": {"tasks": tasks * 2}}}}
    )


def test_what_stands_for_a_default_is_no_change(door: Client, namespace: str) -> None:
    path = JOBS.format(namespace)
    door.create(path, job("j"))
    empty = {"queue": "", "schedulerName": "", "maxRetry": 0}
    assert _patched(door, f"{path}/j", {"spec": empty}) == ""
    for name, value in (("queue", "other"), ("schedulerName", "stromboli"), ("maxRetry", 4)):
        assert f"spec.{name}: " in _patched(door, f"{path}/j", {"spec": {name: value}})


def test_a_field_of_a_template_cannot_give_way_to_an_unknown_one(door: Client) -> None:
    """A server that compares the new template with the old one, but not the old one with the new one, lets it."""
    reservations, container = PATHS["Reservation"], {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    written = {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "door-held"},
        "spec": {"owners": [{"object": {"uid": "u"}}], "template": {"spec": {"containers": [container]}}},
    }  # fmt: skip
    door.create(reservations, written)
    try:
        less = {"name": "c", "image": "x", "resorces": container["resources"]}
        change = {"spec": {"template": {"spec": {"containers": [less]}}}}
        assert "spec.template" in _patched(door, f"{reservations}/door-held", change)
    finally:
        door.delete(f"{reservations}/door-held")


def _patched(door: Client, path: str, change: dict[str, Any]) -> str:
    """Why the server would not change an object; "" if it would."""
    try:
        door.patch(f"{path}?dryRun=All", change)
    except Refused as refused:
        return str(refused)
    return ""


# -- objects that were there before ------------------------------------------------------------------------------


def test_what_rules_are_not_about_can_change_on_a_bad_object(door: Client) -> None:
    path = JOBS.format("default")
    assert refusal_of(door, path, job("new", **BAD))
    door.patch(f"{path}/door-old", {"metadata": {"labels": {"a": "b"}}})
    door.delete(f"{path}/door-old")
