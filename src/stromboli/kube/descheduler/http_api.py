"""Plans and runs over HTTP, on the port of the probes.

    GET  /descheduler/plan?profile=…&for=namespace/name      what a run would do now
    POST /descheduler/apply?profile=…&for=namespace/name     run now; 409 if a run is under way or another replica leads

Both answer with the plans as JSON. A request needs the token of the process, or that of somebody who may list all pods
(for a plan) or evict all pods (to apply one): the API server is asked. That a request comes from the same machine is no
proof: other users are there, and browsers that make requests for the sites of others.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stromboli import plain_json
from stromboli.api.quantity import format_amount
from stromboli.cluster import JobKey
from stromboli.descheduling import Options, Plan
from stromboli.descheduling.planning.plan_drawing import picture
from stromboli.kube.client import Client, Failure
from stromboli.kube.runtime import HealthServer, Reply, Request

from .component import DeschedulerComponent, NotLeader

_MOST_REVIEWS: Final = 4  # at once; whoever has no token can make us ask for one, too
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class DeschedulerApi:
    def __init__(self, component: DeschedulerComponent, client: Client) -> None:
        self._component = component
        self._client = client
        self._reviews = 0  # that are being asked for

    def register(self, server: HealthServer) -> None:
        server.add_route("GET", "/descheduler/plan", self._plan)
        server.add_route("POST", "/descheduler/apply", self._apply)

    async def _plan(self, request: Request) -> Reply:
        refusal = await self._refusal(request, {"verb": "list", "resource": "pods"}, "list all pods")
        return refusal or await self._answer(request, apply=False)

    async def _apply(self, request: Request) -> Reply:
        wanted = {"verb": "create", "resource": "pods", "subresource": "eviction"}
        refusal = await self._refusal(request, wanted, "evict all pods")
        return refusal or await self._answer(request, apply=True)

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

    async def _refusal(self, request: Request, wanted: dict[str, str], described: str) -> Reply | None:
        """None if the request has the token of this process, or one of somebody who may do what is wanted."""
        if request.has_token:
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token or not token.isascii():
            return _error(401, "a token is needed: see stromboli defrag --help")
        if self._reviews >= _MOST_REVIEWS:
            return _error(429, "too many requests at once; try again")
        self._reviews += 1
        try:
            user = await self._review(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
            if not user.get("authenticated"):
                return _error(401, "the token is wrong")
            who = user.get("user", {})
            spec = {"user": who.get("username", ""), "groups": who.get("groups", []), "resourceAttributes": wanted}
            review = await self._review(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        except (Failure, msgspec.DecodeError):
            return _error(401, "the token cannot be verified")
        finally:
            self._reviews -= 1
        if not review.get("allowed"):
            return _error(403, f"the token is of somebody who may not {described}")
        return None if request.trust(spec["user"]) else _error(429, "this user has too many connections at once")

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = plain_json.decode_shallow(await self._client.request("POST", path, body=body))
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
        "removals": [{"pod": each.pod, "from": each.node, "why": each.why} for each in plan.removals],
    }  # fmt: skip


def _quantities(exact: dict[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in exact.items()}


def _error(status: int, message: str) -> Reply:
    return _json(status, {"error": message})


def _json(status: int, body: object) -> Reply:
    return Reply(status, msgspec.json.encode(body), "application/json; charset=utf-8")
