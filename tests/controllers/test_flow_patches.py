"""What a patch of a template does to each kind of field. The rules are those of Volcano's design of patches."""

from __future__ import annotations

from typing import Any

import pytest

from stromboli.controllers.flow.patches import patched


def pod(**spec: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "work", "replicas": 1, "template": {"spec": spec}}]}


def container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", "image": "old", **fields}])


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        (
            {"queue": "a", "maxRetry": 3},
            {"queue": "b", "minSuccess": 1},
            {"queue": "b", "maxRetry": 3, "minSuccess": 1},
        ),
        ({"queue": "a", "priorityClassName": "p"}, {"priorityClassName": None}, {"queue": "a"}),
        ({"plugins": {"env": [], "svc": ["a"]}}, {"plugins": {"svc": []}}, {"plugins": {"env": [], "svc": []}}),
        ({"policies": [1, 2]}, {"policies": [3]}, {"policies": [3]}),
        ({"networkTopology": {"mode": "hard"}}, {"networkTopology": {"tier": 1}}, {"networkTopology": {"tier": 1}}),
        (
            {"tasks": [{"name": "a", "replicas": 1}, {"name": "b"}]},
            {"tasks": [{"name": "b", "replicas": 2}, {"name": "c"}]},
            {"tasks": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}, {"name": "c"}]},
        ),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b"}]},
            {"volumes": [{"mountPath": "/a", "volumeClaim": {}}]},
            {"volumes": [{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/b"}]},
        ),
        (
            pod(volumes=[{"name": "v", "emptyDir": {}}]),
            pod(volumes=[{"name": "v", "secret": {}}, {"name": "w"}]),
            pod(volumes=[{"name": "v", "secret": {}}, {"name": "w"}]),
        ),
        (pod(nodeSelector={"a": "1"}), pod(nodeSelector={"b": "2"}), pod(nodeSelector={"a": "1", "b": "2"})),
        (pod(affinity={"nodeAffinity": {}}), pod(affinity={"podAffinity": {}}), pod(affinity={"podAffinity": {}})),
        (
            pod(tolerations=[{"key": "a", "effect": "NoSchedule"}]),
            pod(tolerations=[{"key": "a", "value": "b"}, {"key": "c"}]),
            pod(tolerations=[{"key": "a", "effect": "NoSchedule", "value": "b"}, {"key": "c"}]),
        ),
        (container(command=["a", "b"]), container(command=["c"]), container(command=["c"])),
        (
            container(env=[{"name": "A", "value": "1"}], resources={"requests": {"cpu": "1"}}),
            container(image="new", env=[{"name": "B", "value": "2"}], resources={"requests": {"memory": "1Gi"}}),
            container(
                image="new",
                env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                resources={"requests": {"cpu": "1", "memory": "1Gi"}},
            ),
        ),
        (
            container(ports=[{"containerPort": 80}], volumeMounts=[{"mountPath": "/a", "name": "v"}]),
            container(ports=[{"containerPort": 80, "name": "web"}], volumeMounts=[{"mountPath": "/b", "name": "v"}]),
            container(
                ports=[{"containerPort": 80, "name": "web"}],
                volumeMounts=[{"mountPath": "/a", "name": "v"}, {"mountPath": "/b", "name": "v"}],
            ),
        ),
        # As clients written in Go send it.
        (
            container(),
            pod(containers=None, nodeSelector={"a": "b"}),
            pod(**container()["tasks"][0]["template"]["spec"], nodeSelector={"a": "b"}),
        ),
        # Without a name, the only one there is is meant.
        (container(), {"tasks": [{"replicas": 4}]}, {"tasks": [container()["tasks"][0] | {"replicas": 4}]}),
        # A field that our types do not have is kept as it is.
        (pod(shareProcessNamespace=True), pod(hostname="x"), pod(shareProcessNamespace=True, hostname="x")),
    ],
)
def test_patches(before: dict[str, Any], patch: dict[str, Any], after: dict[str, Any]) -> None:
    kept = repr(before), repr(patch)
    assert patched(before, patch) == after
    assert (repr(before), repr(patch)) == kept, "neither is changed"
