"""Plans and runs over HTTP, on the port of the probes.

    GET  /descheduler/plan?profile=…&for=namespace/name      what a run would do now
    POST /descheduler/apply?profile=…&for=namespace/name     run now; 409 if a run is under way or another replica leads

Both answer with the plans as JSON. Plans can be read by everybody who can read the metrics. To apply one, the request
must come from the same machine, or have the token of somebody who may create evictions: the API server is asked.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import msgspec

from stromboli.api.quantity import format_amount
from stromboli.cluster import JobKey
from stromboli.descheduling import Options, Plan
from stromboli.descheduling.planning.picture import picture
from stromboli.kube.client import Client, Failure
from stromboli.kube.runtime import HealthServer, Reply, Request

from .component import DeschedulerComponent, NotLeader

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class DeschedulerApi:
    def __init__(self, component: DeschedulerComponent, client: Client) -> None:
        self._component = component
        self._client = client

    def register(self, server: HealthServer) -> None:
        server.add_route("GET", "/descheduler/plan", self._plan)
        server.add_route("POST", "/descheduler/apply", self._apply)

    async def _plan(self, request: Request) -> Reply:
        return await self._answer(request, apply=False)

    async def _apply(self, request: Request) -> Reply:
        if not _is_local(request.remote) and not await self._may_evict(request):
            return _error(403, "only requests from the same machine, or with a token that may evict pods, are accepted")
        return await self._answer(request, apply=True)

    async def _answer(self, request: Request, *, apply: bool) -> Reply:
        if self._component.not_ready_reason() is not None:
            return _error(503, f"the descheduler is not ready: {self._component.not_ready_reason()}")
        profile = request.query.get("profile")
        if profile and profile not in self._component.profiles:
            return _error(404, f'there is no profile "{profile}"; known: {", ".join(self._component.profiles)}')
        job = request.query.get("for", "")
        options = Options(job=JobKey(job if "/" in job else f"default/{job}") if job else None)
        try:
            plans = await (self._component.apply if apply else self._component.plan)(profile, options)
        except NotLeader as error:
            return _error(409, str(error))
        if options.is_unknown:
            return _error(404, f"there is no Job or PodGroup {options.job}; try: stromboli jobs --waiting")
        body = {
            "applied": apply,
            "plans": [_as_json(plan) for plan in plans],
            "notes": options.notes,
            "picture": picture(plans, self._component.nodes()),
        }
        return _json(200, body)

    async def _may_evict(self, request: Request) -> bool:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return False
        try:
            user = await self._review(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
            if not user.get("authenticated"):
                return False
            who = user.get("user", {})
            wanted = {"verb": "create", "resource": "pods", "subresource": "eviction"}
            spec = {"user": who.get("username", ""), "groups": who.get("groups", []), "resourceAttributes": wanted}
            review = await self._review(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        except (Failure, msgspec.DecodeError):
            return False
        return bool(review.get("allowed"))

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = msgspec.json.decode(await self._client.request("POST", path, body=body))
        status: dict[str, Any] = answer.get("status", {})
        return status


def _as_json(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name, "profile": plan.profile, "plugin": plan.plugin, "goal": plan.goal,
        "job": plan.job, "emptied": list(plan.emptied), "frees": _quantities(plan.frees),
        "places": [{"pod": place.pod, "node": place.node} for place in plan.places],
        "moves": [
            {"pod": move.pod, "from": move.source, "to": move.target, "requests": _quantities(move.request)}
            for move in plan.moves
        ],
    }  # fmt: skip


def _quantities(exact: dict[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in exact.items()}


def _is_local(address: str | None) -> bool:
    try:
        return address is not None and ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _error(status: int, message: str) -> Reply:
    return _json(status, {"error": message})


def _json(status: int, body: object) -> Reply:
    return Reply(status, msgspec.json.encode(body), "application/json; charset=utf-8")
