"""What happens just before or just after a certain write: a process dies between a write and its answer, the pod is
deleted while it is bound, the one whom others are evicted for is gone. Times drawn alone would rarely meet that.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from stromboli.embedded.server import Request

from . import documents as make
from .simulated.network import NOBODY

if TYPE_CHECKING:
    from .users import Users

ACTS: Final = ("kill", "freeze", "partition", "delete-waiting", "delete-it", "rival", "delete-reservations", "cordon",
               "shrink", "lose", "suspend", "scale", "delete-job", "admit", "drain")  # fmt: skip


class Meetings:
    def __init__(self, users: Users) -> None:
        self._users = users
        self._world = users.world
        self._armed: list[dict[str, Any]] = []
        self._rivals = 0
        self._ended = False

    def arm(self, meeting: dict[str, Any]) -> None:
        self._armed.append(dict(meeting))

    def end(self) -> None:
        self._armed.clear()
        self._ended = True

    def met(self, when: str, who: str, what: str, request: Request) -> None:
        """`when`: before or after it is done."""
        for one in self._armed:
            by = one.get("who", "[!k]*")  # not the kubelets
            if one["when"] != when or one.get("about", "").encode() not in request.body:
                continue
            if fnmatchcase(what, one["what"]) and fnmatchcase(who, by):
                one["skip"] -= 1
                if one["skip"] < 0:
                    self._armed.remove(one)
                    self._world.rules.hits[f"meet-{one['act']}", what] += 1
                    if one["delay"]:
                        self._world.loop.call_later(one["delay"], self._act, one, who, request, context=NOBODY)
                    else:
                        self._act(one, who, request)
                    return

    def _act(self, meeting: dict[str, Any], who: str, request: Request) -> None:
        if self._ended:
            return
        world, act, lasts = self._world, meeting["act"], meeting["lasts"]
        world.say("MEET", f"{act} {meeting['when']} {meeting['what']} of {who}, for {lasts} s")
        writer, world.history.writer = world.history.writer, ""
        if act in ("kill", "freeze", "partition"):
            self._stop(act, who, lasts)
        elif act in ("cordon", "shrink", "lose"):
            self._trouble(act, _node_of(request), lasts)
        else:
            self._change(act, request, lasts)
        world.history.writer = writer

    def _stop(self, act: str, who: str, lasts: float) -> None:
        world, process = self._world, self._world.processes[who]
        if act == "kill":
            process.kill()
            world.loop.call_later(lasts, process.start, context=NOBODY)
        elif act == "freeze":
            world.server.stale(who, world.loop.time() + lasts + 3.0)
            process.freeze()
            world.loop.call_later(lasts, process.thaw, context=NOBODY)
        else:
            world.server.stale(who, world.loop.time() + lasts + 20.0)
            world.server.network.partition(who)
            world.loop.call_later(lasts, world.server.network.heal, who, context=NOBODY)

    def _trouble(self, act: str, node: str, lasts: float) -> None:
        users = self._users
        if node in self._world.nodes:
            do = {"cordon": users.do_cordon, "shrink": users.do_shrink, "lose": users.do_lose}[act]
            undo = {"cordon": users.do_uncordon, "shrink": users.do_grow, "lose": users.do_return}[act]
            do(node)
            self._world.loop.call_later(lasts, undo, node, context=NOBODY)

    def _change(self, act: str, request: Request, lasts: float) -> None:
        users, pod = self._users, request.path.split("/")[6] if "/pods/" in request.path else ""
        match act:
            case "delete-waiting":
                self._delete_waiting()
            case "delete-it" if pod:
                users.attempt("DELETE", f"{make.PODS}/{pod}", {"gracePeriodSeconds": 0} if lasts < 3 else None)
            case "rival":
                self._rivals += 1
                users.do_pod(f"rival{self._rivals}", 1, "", 6.0, "high")
            case "suspend" | "scale" | "delete-job":
                self._change_job(act, request, lasts)
            case "admit":
                self._rivals += 1
                given = {"run": 6.0, "priority": "high", "grace": 1, "fails": False, "restarts": ""}
                users.do_job(name=f"rival{self._rivals}", queue="q-b", replicas=2, least=2, cpu=1, **given)
            case "drain":
                users.do_drain()
            case "delete-reservations":
                for reservation in self._world.must("GET", make.RESERVATIONS)["items"]:
                    if reservation["metadata"]["name"].startswith("hold"):
                        users.do_delete_reservation(reservation["metadata"]["name"])

    def _change_job(self, act: str, request: Request, lasts: float) -> None:
        """The job that the request is about, or the first one that there is."""
        jobs = [job["metadata"]["name"] for job in self._world.must("GET", make.JOBS)["items"]]
        about = f"{request.path} {request.body.decode()}"
        jobs.sort(key=lambda name: name not in about)
        for name in jobs[:1]:
            match act:
                case "suspend":
                    self._users.do_suspend_job(name)
                    self._world.loop.call_later(lasts, self._users.do_resume_job, name, context=NOBODY)
                case "scale":
                    self._users.do_scale_job(name, 1 + int(lasts) % 4)
                case _:
                    self._users.do_delete_job(name)

    def _delete_waiting(self) -> None:
        """The one whom others are evicted for, if there is one."""
        pods = [pod for pod in self._world.must("GET", make.PODS)["items"] if not pod["spec"].get("nodeName")]
        pods.sort(key=lambda pod: (not pod["status"].get("nominatedNodeName"), -pod["spec"].get("priority", 0)))
        for pod in pods[:1]:
            self._users.attempt("DELETE", f"{make.PODS}/{pod['metadata']['name']}")


def _node_of(request: Request) -> str:
    return str(json.loads(request.body)["target"]["name"]) if request.path.endswith("/binding") else ""
