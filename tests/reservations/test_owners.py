"""Who may use a reservation: by reference, by controller, by labels."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.fake_cluster import FakeCluster
from stromboli.api import ObjectReference, Pod, Reservation, decode
from stromboli.api.reservations import expires_at, has_expired, may_use, pinned_node, queue_of, uses

TEMPLATE: dict[str, Any] = {
    "metadata": {"namespace": "ml"},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]},
}
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
SET = {"controller": {"kind": "ReplicaSet", "name": "web", "namespace": "ml"}}


def reservation(*owners: dict[str, Any], **spec: Any) -> Reservation:
    written = decode(
        {
            "apiVersion": "scheduling.volcano.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "r", "uid": "r1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"template": TEMPLATE, "owners": list(owners) or [WEB], **spec},
        }
    )
    assert isinstance(written, Reservation)
    return written


def pod(name: str = "p", *owned_by: str, **changes: Any) -> Pod:
    references = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": one, "uid": one} for one in owned_by]
    metadata = {"name": name, "namespace": "ml", "uid": "u1", "ownerReferences": references, **changes}
    written = decode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": TEMPLATE["spec"]})
    assert isinstance(written, Pod)
    return written


@pytest.mark.parametrize(
    ("owner", "user", "expected"),
    [
        ({"object": {"namespace": "ml", "name": "p"}}, pod(), True),
        ({"object": {"namespace": "ml", "name": "p", "uid": "u1"}}, pod(), True),
        ({"object": {"namespace": "ml", "name": "p", "uid": "other"}}, pod(), False),
        ({"object": {"namespace": "ml", "name": "p", "kind": "StatefulSet"}}, pod(), True),  # the kind is not compared
        ({"object": {"name": "p"}, "namespaces": ["web"]}, pod(), False),
        # Names and references to controllers can be copied: without a namespace, that of the template is meant.
        ({"object": {"name": "p"}}, pod(), True),
        ({"object": {"name": "p"}}, pod(namespace="other"), False),
        ({"object": {"uid": "u1"}}, pod(namespace="other"), True),  # nobody can choose a UID
        ({"controller": {"kind": "ReplicaSet", "name": "web"}}, pod("p", "web"), True),
        ({"controller": {"kind": "ReplicaSet", "name": "web"}}, pod("p", "web", namespace="other"), False),
        ({"controller": {"uid": "web"}}, pod("p", "web", namespace="other"), False),
        (SET, pod("p", "other", "web"), True),  # the second of two references
        (SET, pod("p", "other"), False),
        (SET, pod("p", "web", namespace="web"), False),
        ({"controller": {"uid": "web", "controller": True}}, pod("p", "web"), False),  # it owns, but does not control
        (WEB, pod(labels={"app": "web"}), True),
        (WEB, pod(labels={"app": "db"}), False),
        (WEB, pod(labels={"app": "web"}, namespace="other"), False),  # the namespace of the template
        ({**WEB, "namespaces": ["other"]}, pod(labels={"app": "web"}, namespace="other"), True),
        ({**WEB, "namespaces": ["other"]}, pod(labels={"app": "web"}), False),
        ({**WEB, **SET}, pod("p", "web"), False),  # both parts of one owner are needed
        ({**WEB, **SET}, pod("p", "web", labels={"app": "web"}), True),
    ],
)
def test_one_owner(owner: dict[str, Any], user: Pod, expected: bool) -> None:
    assert may_use(reservation(owner), user) is expected


def test_of_several_owners_one_is_enough() -> None:
    either = reservation(WEB, SET)
    assert may_use(either, pod("p", "web"))
    assert may_use(either, pod(labels={"app": "web"}))
    assert not may_use(either, pod("p", "other", labels={"app": "db"}))


def test_nobody_and_everybody() -> None:
    """Validation refuses both. If they get past it, no owners means nobody, and an owner without parts everybody in the
    namespace of the template."""
    nobody, everybody = reservation(), reservation(WEB)
    nobody.spec.owners = []
    everybody.spec.owners[0].label_selector = None
    assert not may_use(nobody, pod(labels={"app": "web"}))
    assert may_use(everybody, pod("any"))
    assert not may_use(everybody, pod("any", namespace="other"))


def test_only_listed_pods_on_its_node_use_a_reservation() -> None:
    held, user = reservation(), pod(annotations={"scheduling.stromboli.io/reservation": "r/r1"})
    held.status.node_name = user.spec.node_name = "n1"
    assert not uses(held, user), "what it says about itself is no proof"
    held.status.current_owners = [ObjectReference(uid="u1")]
    assert uses(held, user)
    user.spec.node_name = "n2"
    assert not uses(held, user)
    held.status.node_name = user.spec.node_name = ""
    assert not uses(held, user)


@pytest.mark.parametrize(("ttl", "seconds"), [(None, 86_400), ("90s", 90), (5, 5), ("0", None), ("0s", None)])
def test_the_time_counts_from_the_creation(ttl: Any, seconds: float | None) -> None:
    held = reservation(**({} if ttl is None else {"ttl": ttl}))
    start = 1_767_225_600.0  # 2026-01-01T00:00:00Z
    assert expires_at(held) == (None if seconds is None else start + seconds)
    if seconds is not None:
        assert not has_expired(held, start + seconds - 1)
        assert has_expired(held, start + seconds)


def test_queue_and_node() -> None:
    assert (queue_of(reservation()), pinned_node(reservation())) == ("default", "")
    assert queue_of(reservation(queue="q")) == "q"
    assert pinned_node(reservation(nodeName="n1")) == "n1"
    assert pinned_node(reservation(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeName": "n2"}})) == "n2"


@pytest.mark.parametrize(("ttl", "seconds"), [("90s", 90), ("2500ms", 2.5), (0, None)])
def test_the_controllers_wake_up_when_its_time_is_over(ttl: Any, seconds: float | None) -> None:
    """Neither before that nor later, and not at all for one that never expires."""
    start = 1_767_225_600.0
    cluster = FakeCluster(reservation(ttl=ttl), now=start)
    cluster.settle()
    assert cluster.controllers.next_due(start) == (None if seconds is None else start + seconds)
