"""Work of all kinds: streams that go on, gangs, elastic gangs, Jobs with roles, services, gangs that are services and
so are moved, stateful sets, pods without requests, pods of other schedulers, and jobs as large as a node, which
starve."""

from __future__ import annotations

from all_features.generator.documents import (
    GPU,
    GROUP,
    POOL,
    QUEUE,
    ZONE,
    Document,
    controller,
    group,
    metadata,
    owned_by,
    pod,
    pod_spec,
    times,
)
from all_features.generator.draft import ARRIVALS_END, Draft
from all_features.generator.nodes import SPECIAL
from all_features.generator.volumes import claims_of, shared_claim

MOVABLE = "scheduling.stromboli.io/movable"
PREEMPTABLE = "volcano.sh/preemptable"
ESTIMATE = "scheduling.stromboli.io/estimate"


def add_works(draft: Draft) -> None:
    dice = draft.dice
    for number in range(dice.randint(1, 2)):
        _stream(draft, f"st{number}")
    for number in range(dice.randint(2, 4)):
        _service(draft, f"web{number}")
    for number in range(dice.randint(1, 2)):
        _moving_gang(draft, f"ring{number}")
    _stateful_set(draft, "db0")
    for number in range(dice.randint(2, 4)):
        _gang(draft, f"gang{number}")
    for number in range(dice.randint(1, 3)):
        _job(draft, f"job{number}")
    for number in range(dice.randint(1, 2)):
        _big(draft, f"big{number}")
    _odds(draft)


# -- requests and rules ---------------------------------------------------------------------------------------------


def _requests(draft: Draft, *cpus: float) -> Document:
    requests: Document = {"cpu": draft.dice.choice(cpus or (0.5, 1, 1, 2))}
    if draft.chance(0.3):
        requests["memory"] = f"{draft.dice.choice((1, 2, 4))}Gi"
    if draft.chance(0.1):
        requests[GPU] = 1
    return requests


def _rules(draft: Draft) -> Document:
    where = draft.dice.random()
    selector: Document = {}
    if where < 0.1:
        selector = {ZONE: draft.dice.choice(sorted({n["metadata"]["labels"][ZONE] for n in draft.nodes.values()}))}
    elif where < 0.15:
        selector = {POOL: "gpu"}
    return {"selector": selector, "tolerates": [SPECIAL] if draft.chance(0.3) else []}


def _notes(draft: Draft, queue: str, **given: float | None) -> dict[str, str]:
    notes = {QUEUE: queue, **times(**given)}
    if draft.chance(0.12):
        notes[PREEMPTABLE] = "false"
    return notes


def _grace(draft: Draft) -> float | None:
    return draft.dice.choice((None, None, 1, 2, 4))


# -- works ----------------------------------------------------------------------------------------------------------


def _stream(draft: Draft, name: str) -> None:
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    every, run, grace = dice.choice((1, 1.5, 2, 3)), dice.choice((2, 4, 6, 9)), _grace(draft)
    requests, rules, priority = _requests(draft, 1, 1, 2), _rules(draft), draft.priority()
    estimate = {ESTIMATE: f"{run}s"} if draft.chance(0.3) else {}
    at, number = 0.0, 0
    while at < ARRIVALS_END:
        notes = {**_notes(draft, queue, at=at, run=run, grace=grace), **estimate}
        spec = pod_spec(requests, priority=priority, **rules)
        draft.add(pod(namespace, f"{name}-{number:02}", spec, labels={"app": name}, notes=notes))
        at, number = at + every, number + 1


def _service(draft: Draft, name: str) -> None:
    """A ReplicaSet. In most worlds its pods are on nodes from the start, one by one, so that nodes are little used."""
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    replicas, requests = dice.randint(1, 4), _requests(draft, 0.5, 1, 1, 2)
    notes = {**_notes(draft, queue, grace=_grace(draft)), **_usage(draft, requests)}
    spec = pod_spec(requests, priority=draft.priority(), **_rules(draft))
    at = None if draft.chance(0.6) else dice.randint(0, ARRIVALS_END // 2)
    owner = controller(
        "ReplicaSet", namespace, name, replicas, spec, labels={"app": name}, notes=notes,
        own_notes={QUEUE: queue, **times(at=at)},
    )  # fmt: skip
    draft.add(owner)
    if at is None:
        for number in range(dice.randint(0, replicas)):
            draft.add(_placed(draft, owner, f"{name}-x{number}"))


def _placed(draft: Draft, owner: Document, name: str) -> Document:
    """A pod of a set that runs from the start, if its node takes it."""
    template = owner["spec"]["template"]
    fitting = [
        key for key, one in sorted(draft.nodes.items())
        if not one.get("spec") and all(
            one["metadata"]["labels"].get(label) == value
            for label, value in template["spec"].get("nodeSelector", {}).items()
        ) and (GPU not in template["spec"]["containers"][0]["resources"]["requests"] or
               GPU in one["status"]["allocatable"])
    ]  # fmt: skip
    spec = {**template["spec"], "nodeName": draft.dice.choice(fitting or sorted(draft.nodes))}
    inside = template["metadata"]
    made = pod(owner["metadata"]["namespace"], name, spec, labels=inside["labels"], notes=inside["annotations"])
    return owned_by(made, owner)


def _usage(draft: Draft, requests: Document) -> dict[str, str]:
    """What it really uses, for LoadAware."""
    if draft.chance(0.5):
        return {}
    cpu = requests["cpu"] * draft.dice.choice((0.1, 0.5, 1.5, 2.5))
    return {"sim.stromboli.io/usage": f"cpu={round(cpu * 1000)}m,memory=1Gi"}


def _moving_gang(draft: Draft, name: str) -> None:
    """A gang whose pods are those of a ReplicaSet, so that a member that is moved has a successor."""
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    replicas = dice.randint(2, 4)
    requests = _requests(draft, 0.5, 1, 1)
    notes = {
        **_notes(draft, queue, grace=_grace(draft)), GROUP: name, MOVABLE: "true", **_usage(draft, requests)
    }  # fmt: skip
    owner = controller(
        "ReplicaSet", namespace, name, replicas, pod_spec(requests, **_rules(draft)), labels={"app": name},
        notes=notes, own_notes={QUEUE: queue},
    )  # fmt: skip
    draft.add(owner, group(namespace, name, dice.randint(1, replicas), queue))
    if draft.chance(0.5):
        for number in range(replicas):
            draft.add(_placed(draft, owner, f"{name}-x{number}"))


def _stateful_set(draft: Draft, name: str) -> None:
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    notes = _notes(draft, queue, grace=_grace(draft))
    spec = pod_spec(_requests(draft, 0.5, 1), priority=draft.priority())
    draft.add(controller(
        "StatefulSet", namespace, name, dice.randint(1, 3), spec, labels={"app": name}, notes=notes,
        own_notes={QUEUE: queue, **times(at=dice.randint(0, 10))},
    ))  # fmt: skip


def _gang(draft: Draft, name: str) -> None:
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    at, run, grace = dice.randint(0, ARRIVALS_END), dice.choice((4, 8, 12, 20)), _grace(draft)
    pods = dice.randint(2, 4)
    least = pods if draft.chance(0.6) else dice.randint(1, pods)
    requests, rules, priority = _requests(draft), _rules(draft), draft.priority()
    estimate = {ESTIMATE: f"{run}s"} if draft.chance(0.3) else {}
    draft.add(group(namespace, name, least, queue, priority, at))
    shared = shared_claim(draft, namespace, f"{name}-shared", at) if draft.chance(0.1) else ""
    brings = draft.chance(0.4)
    for number in range(pods):
        member = f"{name}-{number}"
        claims = [shared] if shared else claims_of(draft, namespace, member, at) if brings else []
        notes = {**_notes(draft, queue, at=at, run=run, grace=grace), GROUP: name, **estimate}
        spec = pod_spec(requests, priority=priority, claims=claims, **rules)
        draft.add(pod(namespace, member, spec, labels={"app": name}, notes=notes))


def _job(draft: Draft, name: str) -> None:
    """A Job with one or two roles. In some, the loss of a pod restarts all of it."""
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    priority, at = draft.priority(), dice.randint(0, ARRIVALS_END)
    tasks, total = [], 0
    for role in ("main", "helper")[: dice.choice((1, 1, 2))]:
        replicas = dice.randint(1, 3)
        notes = times(run=dice.choice((6, 10, 16)), grace=_grace(draft))
        if draft.chance(0.5):
            notes[MOVABLE] = "true"
        task: Document = {
            "name": role, "replicas": replicas,
            "template": {
                "metadata": {"annotations": notes, "labels": {"app": name}},
                "spec": pod_spec(_requests(draft, 0.5, 1), priority=priority, **_rules(draft)),
            },
        }  # fmt: skip
        if draft.chance(0.3):
            task["minAvailable"] = dice.randint(1, replicas)
        tasks.append(task)
        total += replicas
    spec: Document = {"queue": queue, "tasks": tasks, "maxRetry": 3}
    if draft.chance(0.6):
        spec["minAvailable"] = dice.randint(1, total)
    if priority:
        spec["priorityClassName"] = priority
    if draft.chance(0.3):
        spec["policies"] = [{"event": dice.choice(("PodEvicted", "PodFailed")), "action": "RestartJob"}]
    draft.add({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": metadata(name, namespace, None, **times(at=at)), "spec": spec,
    })  # fmt: skip


def _big(draft: Draft, name: str) -> None:
    """As large as a node: with a stream beside it, it waits until nodes are reserved for it, or made free for it."""
    dice, namespace, queue = draft.dice, draft.namespace(), draft.queue()
    cpu = dice.choice(sorted(one["status"]["allocatable"]["cpu"] for one in draft.nodes.values()))
    pods, at = dice.choice((1, 1, 2)), dice.randint(3, 20)
    priority = draft.priority()
    draft.add(group(namespace, name, pods, queue, priority, at))
    for number in range(pods):
        notes = {**_notes(draft, queue, at=at, run=dice.choice((5, 10)), grace=_grace(draft)), GROUP: name}
        spec = pod_spec({"cpu": cpu}, priority=priority)
        draft.add(pod(namespace, f"{name}-{number}", spec, labels={"app": name}, notes=notes))


def _odds(draft: Draft) -> None:
    """Pods without requests, and pods of another scheduler, which use what is not ours to divide."""
    dice = draft.dice
    for number in range(dice.randint(1, 2)):
        notes = {QUEUE: draft.queue(), **times(at=dice.randint(0, ARRIVALS_END), run=8)}
        draft.add(pod(draft.namespace(), f"idle{number}", pod_spec({}), labels={"app": "idle"}, notes=notes))
    for number in range(dice.randint(0, 2)):
        spec = pod_spec({"cpu": dice.choice((0.5, 1))}, scheduler="default-scheduler")
        spec["nodeName"] = dice.choice(sorted(draft.nodes))
        draft.add(pod(draft.namespace(), f"foreign{number}", spec, labels={"app": "foreign"}, notes={}))
