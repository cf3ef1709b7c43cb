"""MutatingAdmissionPolicies: what the API server fills in, so that everybody sees it from the beginning.

The controllers fill in the same where the server does not (`api.defaults`, `controllers.job.plugins`,
`api.namespace_queue`). What is filled in stays: who leaves `minAvailable` out and halves the replicas later must lower
the written `minAvailable` with them, as in Volcano. Whoever sends the same manifest again leaves it out again, and some
of it must not change: so it is filled in again, if it was there.

A user who is no part of Kubernetes is written on what they create. A validating policy keeps that annotation true.
"""

from __future__ import annotations

from typing import Any, Final

from stromboli.api.names import DEFAULT_QUEUE, QUEUE_ALLOCATION_GATE, QUEUE_NAME, SUBMITTER
from stromboli.api.pod_annotations import QUEUE_GATE_OPTED_IN
from stromboli.api.rules.jobs import REQUIRED_PLUGINS
from stromboli.api.rules.others import OUR_SCHEDULERS
from stromboli.api.rules.requests import CREATE, UPDATE

from .yaml_files import text

Document = dict[str, Any]

MUTATIONS_FOLDER: Final = "components/since-1.36"
_API: Final = "admissionregistration.k8s.io/v1"
_JOBS: Final = ("batch.volcano.sh", "v1alpha1", "jobs")
_CRON_JOBS: Final = ("batch.volcano.sh", "v1alpha1", "cronjobs")
_JOB_FLOWS: Final = ("flow.volcano.sh", "v1alpha1", "jobflows")
_GROUPS: Final = ("scheduling.volcano.sh", "v1beta1", "podgroups")
_PODS: Final = ("", "v1", "pods")

_UNNAMED_TASK: Final = "t, !has(t.name) || t.name == ''"
_NAMES: Final = (
    f"object.spec.tasks.transformList(i, {_UNNAMED_TASK},"
    " JSONPatch{op: 'add', path: '/spec/tasks/' + string(i) + '/name', value: 'default' + string(i)})"
)
_MINIMUM: Final = (
    "[JSONPatch{op: 'add', path: '/spec/minAvailable', value: object.spec.tasks.map(t,"
    " has(t.minAvailable) ? t.minAvailable"
    " : has(t.partitionPolicy) && has(t.partitionPolicy.minPartitions) && t.partitionPolicy.minPartitions > 0"
    " ? t.partitionPolicy.minPartitions * t.partitionPolicy.partitionSize"
    " : has(t.replicas) ? t.replicas : 0).sum()}]"
)
_NAMED: Final = f"namespaceObject.metadata.annotations['{QUEUE_NAME}']"
# A condition of a policy does not see the namespace.
_QUEUE: Final = (
    f"has(namespaceObject.metadata.annotations) && '{QUEUE_NAME}' in namespaceObject.metadata.annotations"
    f" ? [JSONPatch{{op: 'add', path: '/spec/queue', value: {_NAMED}}}] : []"
)
_UNNAMED: Final = f"!has(object.spec.queue) || object.spec.queue in ['', '{DEFAULT_QUEUE}']"
_OPTED_IN: Final = (
    f"has(object.metadata.annotations) && '{QUEUE_ALLOCATION_GATE}' in object.metadata.annotations"
    f" && object.metadata.annotations['{QUEUE_ALLOCATION_GATE}'] == '{QUEUE_GATE_OPTED_IN}'"
)
_UNGATED: Final = (
    "!has(object.spec.nodeName) && (!has(object.spec.schedulingGates)"
    f" || !object.spec.schedulingGates.exists(g, g.name == '{QUEUE_ALLOCATION_GATE}'))"
)
_GATE: Final = (
    "has(object.spec.schedulingGates)"
    f" ? [JSONPatch{{op: 'add', path: '/spec/schedulingGates/-', value: {{'name': '{QUEUE_ALLOCATION_GATE}'}}}}]"
    f" : [JSONPatch{{op: 'add', path: '/spec/schedulingGates', value: [{{'name': '{QUEUE_ALLOCATION_GATE}'}}]}}]"
)
_USER: Final = f"Object{{metadata: Object.metadata{{annotations: {{'{SUBMITTER}': request.userInfo.username}}}}}}"


def mutating_policies() -> list[Document]:
    """Each policy, followed by its binding."""
    return [
        *_policy(
            "stromboli-task-names",
            [_JOBS],
            f"object.spec.tasks.exists({_UNNAMED_TASK})",
            _NAMES,
            again_if=f"!oldObject.spec.tasks.exists({_UNNAMED_TASK})",
        ),
        *_policy(
            "stromboli-minimum",
            [_JOBS],
            "!has(object.spec.minAvailable)",
            _MINIMUM,
            again_if="has(oldObject.spec.minAvailable)",
        ),
        *(document for plugin in sorted(set(_needed())) for document in _plugin(plugin)),
        *_policy("stromboli-namespace-queue", [_GROUPS], _UNNAMED, _QUEUE),
        *_policy("stromboli-user", [_JOBS, _CRON_JOBS, _JOB_FLOWS, _GROUPS], _is_person(), _USER, is_patch=False),
        *_policy("stromboli-queue-gate", [_PODS], f"{_is_ours()} && {_OPTED_IN} && {_UNGATED}", _GATE),
        *_policy("stromboli-user-of-pods", [_PODS], f"{_is_ours()} && {_is_person()}", _USER, is_patch=False),
    ]


def mutation_files() -> dict[str, str]:
    """The generated files of `deploy/`, by path."""
    return {f"{MUTATIONS_FOLDER}/mutations.yaml": text(*mutating_policies())}


def _needed() -> list[str]:
    return [needed for plugins in REQUIRED_PLUGINS.values() for needed in plugins]


def _plugin(needed: str) -> list[Document]:
    """With its default arguments, if another plugin cannot work without it."""
    others = [name for name, plugins in REQUIRED_PLUGINS.items() if needed in plugins]
    asked = " || ".join(f"'{name}' in object.spec.plugins" for name in others)
    when = f"has(object.spec.plugins) && !('{needed}' in object.spec.plugins) && ({asked})"
    add = f"[JSONPatch{{op: 'add', path: '/spec/plugins/{needed}', value: []}}]"
    had = f"has(oldObject.spec.plugins) && '{needed}' in oldObject.spec.plugins"
    return _policy(f"stromboli-plugin-{needed}", [_JOBS], when, add, again_if=had)


def _is_person() -> str:
    unnamed = f"!has(object.metadata.annotations) || !('{SUBMITTER}' in object.metadata.annotations)"
    return f"!request.userInfo.username.startsWith('system:') && ({unnamed})"


def _is_ours() -> str:
    return f"has(object.spec.schedulerName) && object.spec.schedulerName in {list(OUR_SCHEDULERS)}"


def _policy(
    name: str,
    kinds: list[tuple[str, str, str]],
    when: str,
    expression: str,
    *,
    is_patch: bool = True,
    again_if: str = "",
) -> list[Document]:
    """`again_if` an object was so before, it is filled in when the object is changed, too."""
    operations = [CREATE, UPDATE] if again_if else [CREATE]
    conditions = [{"name": "missing", "expression": when}]
    if again_if:
        conditions.append({"name": "filled-in-before", "expression": f"request.operation == '{CREATE}' || {again_if}"})
    rules = [
        {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [plural], "scope": "*"}
        for group, version, plural in kinds
    ]
    mutation: Document = (
        {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        if is_patch
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    )
    return [
        {
            "apiVersion": _API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                # What cannot be filled in here is filled in by the controllers.
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": rules},
                "matchConditions": conditions,
                "mutations": [mutation],
            },
        },
        {
            "apiVersion": _API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    ]
