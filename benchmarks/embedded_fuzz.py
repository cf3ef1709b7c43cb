"""Send malformed requests to the embedded API server.

    python benchmarks/embedded_fuzz.py --requests 10000 --seed 1

Bad JSON, bad patches, huge bodies, tricks with paths, wrong content types, wrong queries. Whatever a request contains,
the answer has to be a success or a 4xx with a Status object; never a 5xx, never a traceback, and the memory of the
process stays bounded. Anything else is printed with the number of the request, and the exit status is 1. Request number
n of a seed is always the same; the server is the same for all requests.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from stromboli.embedded.server import ApiServer, Request, Response, WatchResponse
from stromboli.embedded.store import Store
from stromboli.embedded.upkeep import Upkeep

NOW: Final = 1_700_000_000.0
MEDIA: Final = (
    "application/json", "application/merge-patch+json", "application/json-patch+json", "application/yaml",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf",
    "text/html", "", "application/json; charset=utf-8", "multipart/form-data",
)  # fmt: skip
PATHS: Final = (
    "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/a", "/api/v1/namespaces/default/pods/a/status",
    "/api/v1/namespaces/default/pods/a/binding", "/api/v1/namespaces/default/pods/a/eviction", "/api/v1/nodes",
    "/api/v1/namespaces/default/pods/a/log", "/api/v1/nodes/n1", "/api/v1/namespaces", "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/c",
    "/apis/apps/v1/namespaces/default/replicasets", "/apis/apps/v1/namespaces/default/replicasets/r/scale",
    "/apis/batch/v1/namespaces/default/jobs", "/apis/batch/v1/namespaces/default/jobs/j", "/apis", "/api", "/version",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/openapi/v2", "/openapi/v3/apis/apps/v1",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/toys.example.com/v1/namespaces/default/balloons",
    "/apis/toys.example.com/v1/namespaces/default/balloons/b",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/events", "/api/v1/namespaces/default/finalize",
)  # fmt: skip
QUERIES: Final = (
    "labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch",
    "timeoutSeconds", "dryRun", "fieldManager", "fieldValidation", "force", "gracePeriodSeconds", "propagationPolicy",
    "includeObject", "sendInitialEvents", "allowWatchBookmarks", "container", "orphanDependents", "pretty",
)  # fmt: skip
SCRAPS: Final = (
    None, True, False, 0, -1, 1.5, 2**70, 1e308, "", "a", "\0", "../..", "💥" * 40, "x" * 5000, [], {}, [[]], [{}],
    {"": ""}, {"$patch": "delete"}, {"name": "a"}, "2020-01-01T00:00:00Z", "99Gi", "-1", "NaN",
    {"a": {"b": {"c": [1]}}},
)  # fmt: skip


def _objects() -> list[dict[str, Any]]:
    container = {"name": "main", "image": "x", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    fields = {"size": {"type": "integer", "minimum": 1}, "parts": {"type": "array", "items": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}},
         "spec": {"containers": [container], "tolerations": [{"key": "k", "operator": "Exists"}]}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"completions": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}},
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
         "metadata": {"name": "balloons.toys.example.com"}, "spec": {"group": "toys.example.com",
         "scope": "Namespaced", "names": {"plural": "balloons", "kind": "Balloon"},
         "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}},
        {"apiVersion": "toys.example.com/v1", "kind": "Balloon", "metadata": {"name": "b"}, "spec": {"size": 3}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"}, "spec": {
            "minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
        {"kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}},
        {"kind": "Eviction", "metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0}},
        {"kind": "DeleteOptions", "preconditions": {"uid": "x"}, "propagationPolicy": "Foreground"},
        {"kind": "Scale", "spec": {"replicas": 3}},
    ]  # fmt: skip


COLLECTIONS: Final = {
    "Pod": "/api/v1/namespaces/default/pods", "Node": "/api/v1/nodes",
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets", "Job": "/apis/batch/v1/namespaces/default/jobs",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Balloon": "/apis/toys.example.com/v1/namespaces/default/balloons",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}  # fmt: skip


class Fuzzer:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def request(self, number: int) -> Request:
        dice = random.Random(f"{self._seed}/{number}")
        method = dice.choice(("GET", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "HEAD", "BREW"))
        if dice.random() < 0.5:
            return self._near_miss(dice)
        path = self._path(dice)
        query = {dice.choice(QUERIES): self._text(dice) for _ in range(dice.choice((0, 0, 1, 1, 2)))}
        if "resourceVersion" in query and query["resourceVersion"].isdigit():
            query["resourceVersion"] = query["resourceVersion"][:1]  # the future is a 504, as in Kubernetes
        headers = {"content-type": dice.choice(MEDIA), "user-agent": "fuzz/1"}
        if dice.random() < 0.2:
            headers["accept"] = dice.choice((self._text(dice), "text/html", "application/json;as=Table;v=v1", "*/*"))
        return Request(method, path, query, headers, self._body(dice, method))

    def _near_miss(self, dice: random.Random) -> Request:
        """A request that is right in everything but a few values."""
        body = dice.choice([one for one in _objects() if one["kind"] in COLLECTIONS])
        collection, name = COLLECTIONS[body["kind"]], body["metadata"]["name"]
        for _ in range(dice.randrange(0, 3)):
            self._mutate(dice, body)
        data = json.dumps(body).encode()
        match dice.randrange(4):
            case 0:
                return Request("POST", collection, {}, {"content-type": "application/json"}, data)
            case 1:
                return Request("PUT", f"{collection}/{name}", {}, {"content-type": "application/json"}, data)
            case 2:
                return Request("PATCH", f"{collection}/{name}", {}, {"content-type": dice.choice(MEDIA[1:5])}, data)
        query = {"fieldManager": dice.choice(("a", "b")), "force": dice.choice(("true", "false"))}
        return Request("PATCH", f"{collection}/{name}", query, {"content-type": MEDIA[5]}, data)

    def _path(self, dice: random.Random) -> str:
        path = dice.choice(PATHS)
        trick = dice.random()
        if trick < 0.6:
            return path
        parts = path.split("/")
        if trick < 0.8:
            tricks = ("..", ".", "", "%2e", "a/b", "\0", "x" * 3000, "💥", "A")
            parts[dice.randrange(1, len(parts))] = dice.choice(tricks)
        else:
            parts.insert(dice.randrange(1, len(parts) + 1), dice.choice(("..", "", "a", "status", "namespaces")))
        return "/".join(parts)

    def _text(self, dice: random.Random) -> str:
        scrap = dice.choice((*SCRAPS, "All", "true", "a=b", "a in (b", "!", "metadata.name=a", "1", "Strict", "eyJ9"))
        return scrap if isinstance(scrap, str) else json.dumps(scrap)

    def _body(self, dice: random.Random, method: str) -> bytes:
        kind = dice.random()
        if kind < 0.1:
            return dice.randbytes(dice.randrange(0, 300))
        if kind < 0.13:
            return b"[" * dice.choice((10, 5000, 100_000))
        if kind < 0.14:
            return b'{"a":"' + b"x" * dice.choice((100_000, 3_200_000)) + b'"}'
        if kind < 0.25:
            operations = [
                {"op": dice.choice(("add", "remove", "replace", "move", "copy", "test", "jump")),
                 "path": dice.choice(("/spec", "/metadata/name", "/a~1b", "", "x", "/spec/containers/0", "/spec/-", 5)),
                 "from": dice.choice(("/spec", "/metadata", 3)), "value": dice.choice(SCRAPS)}
                for _ in range(dice.randrange(1, 5))
            ]  # fmt: skip
            return json.dumps(operations).encode()
        body = dice.choice(_objects())
        for _ in range(dice.randrange(0, 4)):
            self._mutate(dice, body)
        data = json.dumps(body).encode()
        if kind > 0.9:
            at = dice.randrange(len(data))
            data = data[:at] + dice.randbytes(dice.randrange(0, 4)) + data[at + dice.randrange(0, 5) :]
        return data

    def _mutate(self, dice: random.Random, body: Any) -> None:
        while isinstance(body, dict | list) and body:
            step = dice.choice(list(body)) if isinstance(body, dict) else dice.randrange(len(body))
            if dice.random() < 0.4 or not isinstance(body[step], dict | list):
                action = dice.random()
                if action < 0.2 and isinstance(body, dict):
                    del body[step]
                elif action < 0.3 and isinstance(body, dict):
                    name = dice.choice(("extra", "$patch", "$retainKeys", "", "$setElementOrder/containers"))
                    body[name] = copy.deepcopy(dice.choice(SCRAPS))
                else:
                    body[step] = copy.deepcopy(dice.choice(SCRAPS))
                return
            body = body[step]


def problem_of(outcome: Any) -> str:
    """What is wrong with an answer; an empty text if nothing is."""
    if isinstance(outcome, WatchResponse):
        outcome.watch.poll(NOW)
        return ""
    if not isinstance(outcome, Response):
        return ""
    if outcome.status >= 500:
        return f"{outcome.status}: {outcome.body[:300]!r}"
    if outcome.status >= 400:
        status = outcome.json()
        if status.get("kind") != "Status" or status.get("code") != outcome.status or not status.get("message"):
            return f"no Status: {outcome.body[:300]!r}"
    return ""


def fuzz(seed: int, numbers: range, report: Callable[[int, Request, str], None]) -> Counter[int]:
    """Send requests to one server; `report` gets those that were answered wrongly. Returns how often each status."""
    server = ApiServer(Store(), random=random.Random(seed), now=NOW)
    upkeep = Upkeep(server)
    fuzzer = Fuzzer(seed)
    counts: Counter[int] = Counter()
    for body in _objects():
        if body["kind"] in COLLECTIONS:
            server.handle(Request("POST", COLLECTIONS[body["kind"]], {}, {}, json.dumps(body).encode()), NOW)
    for number in numbers:
        request = fuzzer.request(number)
        outcome = server.handle(request, NOW)
        counts[outcome.status] += 1
        problem = problem_of(outcome)
        if problem:
            report(number, request, problem)
        upkeep.turn(NOW)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    bad = 0

    def report(number: int, request: Request, problem: str) -> None:
        nonlocal bad
        bad += 1
        print(f"request {number}: {request.method} {request.path[:200]!r} {request.headers}: {problem}")

    counts = fuzz(arguments.seed, range(arguments.requests), report)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    by_status = dict(sorted(counts.items()))
    print(f"{arguments.requests} requests, {bad} answered wrongly; by status: {by_status}; {peak} MiB")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
