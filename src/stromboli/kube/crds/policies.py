"""ValidatingAdmissionPolicies, made from the rules, and the bindings that put them into effect.

    stromboli-<kinds>            what is wrong with the object itself
    stromboli-<kinds>-queues     what is wrong with it beside the Queues, each of which is a parameter
    stromboli-<kinds>-relatives  why one cannot be deleted, beside the Queues
    stromboli-<kinds>-deletions  why one cannot be deleted
    stromboli-<kinds>-users      whose it is
    stromboli-<kinds>-warnings   what is stored, with a warning

The server checks the schema first, so expressions may rely on it. Changes that leave what the rules look at as it was
are not judged, so that an object which was there before the policies can still be deleted, and its metadata changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api import (
    ApiObject,
    Command,
    CronJob,
    HyperNode,
    Job,
    JobFlow,
    JobTemplate,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    ResourceQuota,
)
from stromboli.api.names import SUBMITTER
from stromboli.api.rules import RULES, Door
from stromboli.api.rules.requests import CREATE, DELETE, REQUEST_RULES, UPDATE, RequestRule
from stromboli.api.rules.rule import POLICIES

from .policy_expressions import places_of
from .yaml_files import text

Document = dict[str, Any]

FOLDER: Final = "components/since-1.30"
_API: Final = "admissionregistration.k8s.io/v1"
_QUEUES: Final = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}


@dataclass(frozen=True)
class _Judged:
    """A kind, and which of its fields the rules look at, besides its spec."""

    type: type[ApiObject]
    group: str
    version: str
    plural: str
    looks_at: tuple[str, ...] = ("spec",)


_KINDS: Final = (
    _Judged(Queue, "scheduling.volcano.sh", "v1beta1", "queues", ("spec", "metadata.annotations")),
    _Judged(PodGroup, "scheduling.volcano.sh", "v1beta1", "podgroups"),
    _Judged(Job, "batch.volcano.sh", "v1alpha1", "jobs", ("spec", "metadata.annotations")),
    _Judged(CronJob, "batch.volcano.sh", "v1alpha1", "cronjobs"),
    _Judged(JobFlow, "flow.volcano.sh", "v1alpha1", "jobflows"),
    _Judged(JobTemplate, "flow.volcano.sh", "v1alpha1", "jobtemplates"),
    _Judged(Command, "bus.volcano.sh", "v1alpha1", "commands", ("target",)),
    _Judged(Reservation, "scheduling.volcano.sh", "v1alpha1", "reservations"),
    _Judged(HyperNode, "topology.volcano.sh", "v1alpha1", "hypernodes"),
    _Judged(Pod, "", "v1", "pods", ("metadata.annotations",)),
    _Judged(ResourceQuota, "", "v1", "resourcequotas"),
)


def policy_files() -> dict[str, str]:
    """The generated files of `deploy/`, by path."""
    return {f"{FOLDER}/policies.yaml": text(*validating_policies())}


def validating_policies() -> list[Document]:
    """Each policy, followed by its binding."""
    return [document for judged in _KINDS for document in _of_kind(judged)]


def _of_kind(judged: _Judged) -> Iterator[Document]:
    name = f"stromboli-{judged.plural}"
    own = list(_own(judged))
    if own:
        yield from _policy(name, judged, (CREATE, UPDATE), own, unless_unchanged=True)
    requests = [rule for rule in REQUEST_RULES if rule.kind == judged.type.__name__]
    for suffix in dict.fromkeys(_suffix(rule) for rule in requests):
        rules = [rule for rule in requests if _suffix(rule) == suffix]
        yield from _policy(
            f"{name}-{suffix}", judged, rules[0].operations, [_validation(rule) for rule in rules],
            queues=rules[0].each_queue, action="Warn" if rules[0].only_warns else "Deny",
        )  # fmt: skip


def _suffix(rule: RequestRule) -> str:
    """Rules with one suffix are evaluated together."""
    if rule.only_warns:
        return "warnings"
    if SUBMITTER in rule.field:
        return "users"
    if DELETE in rule.operations:
        return "relatives" if rule.each_queue else "deletions"
    return "queues"


def _own(judged: _Judged) -> Iterator[Document]:
    rules = [rule for rule in RULES if rule.door_on(POLICIES) is Door.POLICY]
    placed = [(place, rule) for rule in rules for place in places_of(rule, judged.type)]
    for place, rule in sorted(placed, key=lambda one: (one[1].on_update, one[0].order)):
        must = f"request.operation == 'CREATE' || {place.must}" if rule.on_update else place.must
        yield _said(must, f"{place.field}: {rule.must}", place.says)


def _validation(rule: RequestRule) -> Document:
    return _said(rule.cel, f"{rule.field}: {rule.must}", f"'{rule.field}: ' + {rule.says}")


def _said(must: str, sentence: str, says: str) -> Document:
    return {"expression": must, "message": sentence, **({"messageExpression": says} if says else {})}


def _policy(
    name: str,
    judged: _Judged,
    operations: Sequence[str],
    validations: Iterable[Document],
    *,
    queues: bool = False,
    action: str = "Deny",
    unless_unchanged: bool = False,
) -> Iterator[Document]:
    rules = {
        "apiGroups": [judged.group], "apiVersions": [judged.version], "operations": [*operations],
        "resources": [judged.plural], "scope": "*",  # the default: without it, each `kubectl apply` is a change
    }  # fmt: skip
    conditions = [{"name": "changed", "expression": _changed(judged)}] if unless_unchanged else []
    yield {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Ignore",
            **({"paramKind": _QUEUES} if queues else {}),
            "matchConstraints": {"resourceRules": [rules]},
            **({"matchConditions": conditions} if conditions else {}),
            "validations": [*validations],
        },
    }
    parameters = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}} if queues else {}
    yield {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, **parameters, "validationActions": [action]},
    }


def _changed(judged: _Judged) -> str:
    return "request.operation == 'CREATE' || " + " || ".join(_differs(path) for path in judged.looks_at)


def _differs(path: str) -> str:
    return f"has(object.{path}) != has(oldObject.{path}) || has(object.{path}) && object.{path} != oldObject.{path}"
