"""What deploy/ adds to the roles of users: they write kinds that are one team's, and nothing that is everybody's."""

from __future__ import annotations

from typing import Any

from live.kustomize import DEPLOY, documents

READ = {"get", "list", "watch"}
WRITE = {"create", "delete", "deletecollection", "patch", "update"}
PREFIX = "rbac.authorization.k8s.io/aggregate-to-"


def roles() -> dict[str, Any]:
    return {
        one["metadata"]["name"]: one for one in documents((DEPLOY / "common" / "user-roles.yaml").read_text("utf-8"))
    }


def allowed(role: Any) -> set[tuple[str, str, str]]:
    return {
        (verb, group, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_who_may_edit_writes_these_kinds_and_no_status() -> None:
    own = {
        ("batch.volcano.sh", "jobs"), ("batch.volcano.sh", "cronjobs"), ("flow.volcano.sh", "jobflows"),
        ("flow.volcano.sh", "jobtemplates"), ("scheduling.volcano.sh", "podgroups"), ("bus.volcano.sh", "commands"),
    }  # fmt: skip
    assert allowed(roles()["stromboli-edit"]) == {(verb, *kind) for verb in WRITE for kind in own}


def test_the_other_roles_only_read() -> None:
    for name in ("stromboli-view", "stromboli-reader"):
        asked = allowed(roles()[name])
        assert {verb for verb, _, _ in asked} <= READ, name
        assert not any(resource in ("secrets", "*") or group == "*" for _, group, resource in asked), name
    (settings,) = [rule for rule in roles()["stromboli-reader"]["rules"] if "configmaps" in rule["resources"]]
    assert settings["resourceNames"] == ["stromboli-scheduler"]


def test_each_role_is_added_to_those_it_is_meant_for() -> None:
    added = {
        name: {label.removeprefix(PREFIX) for label in role["metadata"]["labels"] if label.startswith(PREFIX)}
        for name, role in roles().items()
    }
    assert added == {
        "stromboli-view": {"view"}, "stromboli-edit": {"edit", "admin"}, "stromboli-reader": set(),
    }  # fmt: skip
