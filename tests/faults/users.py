"""Carries out the steps of a plan. What users do goes to the server at once: they see neither faults nor delays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import documents as make
from .meetings import Meetings
from .simulated.network import NOBODY
from .simulated.rules import Rule
from .step import Step
from .world import SPARES, World

_MERGE = "application/merge-patch+json"
_TAINT = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
_COUNTED = ("kill", "freeze", "stop", "partition", "clock", "crash-server", "compact", "cordon", "shrink", "lose",
            "delete-node", "delete-pod", "delete-job", "delete-reservation", "recreate-job", "suspend-job", "scale-job",
            "scale-service", "bad-job", "flash", "queue-weight")  # fmt: skip
EVICTED_AFTER = 3.0  # seconds after which the pods of a lost node are deleted


class Users:
    def __init__(self, world: World, calm: float) -> None:
        """`calm`: when the last fault ends."""
        self.world = world
        self._calm = calm
        self.commands = 0
        self.refused: list[str] = []
        self.meetings = Meetings(self)
        self._gone: list[str] = []  # nodes that were there for a moment, which some may believe to be there
        self._bad: set[str] = set()  # jobs that cannot run until they are corrected

    def do(self, step: Step) -> None:
        self.world.say("STEP", f"{step.do} {' '.join(f'{name}={value}' for name, value in step.arguments.items())}")
        if step.do in _COUNTED:
            self.world.rules.note(step.do, step.arguments.get("who", "users").partition("-")[0])
        action: Callable[..., None] = getattr(self, "do_" + step.do.replace("-", "_"))
        action(**step.arguments)

    def attempt(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        status, answer = self.world.ask(method, path, body, kind)
        if status >= 300:
            self.world.say("users", f"{method} {path} -> {status} {answer.get('message', '')[:150]}")
            self.refused.append(f"{method} {path}: {answer.get('message', '')}")
            return None
        return answer

    def _patch(self, path: str, body: Any) -> Any:
        return self.attempt("PATCH", path, body, _MERGE)

    # -- work -----------------------------------------------------------------------------------------------------

    def do_settings(self, guarantee: bool, weight: int) -> None:
        spec: dict[str, Any] = {"weight": weight}
        if guarantee:
            spec["guarantee"] = {"policy": "Best-Effort", "resource": {"cpu": "3"}}
        self.attempt("POST", make.QUEUES, make.queue("q-a", weight=1, reclaimable=True))
        self.attempt("POST", make.QUEUES, make.queue("q-b", reclaimable=True, **spec))

    def do_job(self, restarts: str, **given: Any) -> None:
        given = dict(given)
        name, queue, replicas, least, cpu = (given.pop(key) for key in ("name", "queue", "replicas", "least", "cpu"))
        policies = [{"event": "PodEvicted", "action": restarts}] if restarts else None
        self.attempt("POST", make.JOBS, make.job(name, queue, replicas, least, cpu, policies=policies, **given))

    def do_bad_job(self, name: str, bad: str) -> None:
        """It names a queue that does not exist, or requests more than any node has."""
        queue, cpu = ("q-missing", 1) if bad == "queue" else ("q-a", 99)
        self.attempt("POST", make.JOBS, make.job(name, queue, 1, 1, cpu, run=5.0))
        self._bad.add(name)

    def do_correct_job(self, name: str) -> None:
        self._bad.discard(name)
        self.attempt("DELETE", f"{make.JOBS}/{name}")
        self.attempt("POST", make.JOBS, make.job(name, "q-a", 1, 1, 1, run=5.0))

    def do_delete_job(self, name: str, **_: Any) -> None:
        self.attempt("DELETE", f"{make.JOBS}/{name}", {"propagationPolicy": "Background"})

    def do_recreate_job(self, name: str, replicas: int, **_: Any) -> None:
        """Another object with the same name at once."""
        status, old = self.world.ask("GET", f"{make.JOBS}/{name}")
        if status < 300 and self.attempt("DELETE", f"{make.JOBS}/{name}", {"propagationPolicy": "Background"}):
            spec = {**old["spec"], "minAvailable": min(old["spec"].get("minAvailable", 1), replicas)}
            spec["tasks"] = [{**task, "replicas": replicas, "minAvailable": None} for task in spec["tasks"]]
            again = {"metadata": {"name": name, "namespace": make.NAMESPACE}, "spec": spec}
            self.attempt("POST", make.JOBS, again | {"apiVersion": old["apiVersion"], "kind": "Job"})

    def do_flash(self, what: str, name: str, lasts: float) -> None:
        """Something that is there for a moment only."""
        path = {"pod": make.PODS, "job": make.JOBS, "reservation": make.RESERVATIONS, "node": make.NODES}[what]
        match what:
            case "pod":
                self.do_pod(name, 1, "", None, "high")
            case "job":
                self.attempt("POST", make.JOBS, make.job(name, "q-a", 2, 2, 1, run=None))
            case "reservation":
                self.do_reservation(name, 1, True, "1h", "")
            case "node":
                self.world.add_node(name, 4)
        self.world.loop.call_later(lasts, self.attempt, "DELETE", f"{path}/{name}", context=NOBODY)
        if what == "node":
            self._gone.append(name)
            self.world.loop.call_later(lasts + EVICTED_AFTER, self._delete_pods_of, name, context=NOBODY)

    def do_scale_job(self, name: str, replicas: int, **_: Any) -> None:
        status, job = self.world.ask("GET", f"{make.JOBS}/{name}")
        if status < 300:
            tasks = [{**task, "replicas": replicas, "minAvailable": None} for task in job["spec"]["tasks"]]
            least = min(job["spec"].get("minAvailable", 1), replicas)
            self._patch(f"{make.JOBS}/{name}", {"spec": {"tasks": tasks, "minAvailable": least}})

    def do_suspend_job(self, name: str, **_: Any) -> None:
        self._command(name, "AbortJob")

    def do_resume_job(self, name: str) -> None:
        self._command(name, "ResumeJob")

    def _command(self, job: str, action: str) -> None:
        status, found = self.world.ask("GET", f"{make.JOBS}/{job}")
        if status < 300:
            self.commands += 1
            document = make.command(f"c{self.commands}", action, job, found["metadata"]["uid"])
            self.attempt("POST", make.COMMANDS, document)

    def do_delete_pod(self, name: str, pick: float, **_: Any) -> None:
        pods = [pod for pod in self.world.must("GET", make.PODS)["items"] if pod["metadata"]["name"].startswith(name)]
        if pods:
            self.attempt("DELETE", f"{make.PODS}/{pods[int(pick * len(pods))]['metadata']['name']}")

    def do_drain(self) -> None:
        """Evict a pod that runs, as people do before they work on a node."""
        for pod in self.world.must("GET", make.PODS)["items"]:
            meta, runs = pod["metadata"], pod.get("status", {}).get("phase") == "Running"
            if runs and not meta.get("deletionTimestamp") and meta.get("ownerReferences"):
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
                self.attempt("POST", f"{make.PODS}/{meta['name']}/eviction", body)
                return

    def do_service(self, name: str, replicas: int, cpu: float, budget: int, priority: str) -> None:
        if budget:
            self.attempt("POST", make.BUDGETS, make.budget(name, name, budget))
        self.attempt("POST", make.REPLICA_SETS, make.service(name, replicas, cpu, priority))

    def do_scale_service(self, name: str, replicas: int) -> None:
        self._patch(f"{make.REPLICA_SETS}/{name}", {"spec": {"replicas": replicas}})

    def do_pod(self, name: str, cpu: float, app: str, run: float | None, priority: str) -> None:
        self.attempt(
            "POST", make.PODS, make.pod(name, cpu, run=run, priority=priority, labels={"app": app} if app else {})
        )

    def do_storage(self, disks: int) -> None:
        """Each node has so many disks, and there are volumes that are made on demand."""
        self.attempt("POST", make.CLASSES, make.storage_class("local", "kubernetes.io/no-provisioner"))
        self.attempt("POST", make.CLASSES, make.storage_class("quick", "hollow.stromboli.io"))
        for node in self.world.nodes:
            self._add_disks(node, disks)

    def _add_disks(self, node: str, disks: int) -> None:
        for number in range(disks):
            self.attempt("POST", make.VOLUMES, make.volume(f"{node}-disk{number}", node))

    def do_pod_with_volume(self, name: str, cpu: float, storage: str, run: float | None, priority: str) -> None:
        self.attempt("POST", make.CLAIMS, make.claim(name, storage))
        self.attempt("POST", make.PODS, make.pod(name, cpu, run=run, priority=priority, claim=name))

    def do_reservation(self, name: str, cpu: float, once: bool, ttl: str, priority: str) -> None:
        self.attempt(
            "POST", make.RESERVATIONS, make.reservation(name, name, cpu, once=once, ttl=ttl, priority=priority)
        )

    def do_delete_reservation(self, name: str) -> None:
        self.attempt("DELETE", f"{make.RESERVATIONS}/{name}")

    def do_queue_weight(self, name: str, weight: int) -> None:
        self._patch(f"{make.QUEUES}/{name}", {"spec": {"weight": weight}})

    # -- nodes ----------------------------------------------------------------------------------------------------

    def do_cordon(self, name: str) -> None:
        self._patch(f"{make.NODES}/{name}", {"spec": {"unschedulable": True}})

    def do_uncordon(self, name: str) -> None:
        self._patch(f"{make.NODES}/{name}", {"spec": {"unschedulable": None}})

    def do_shrink(self, name: str) -> None:
        self._patch(f"{make.NODES}/{name}/status", {"status": {"allocatable": {"cpu": "2"}}})

    def do_grow(self, name: str) -> None:
        amounts = {"cpu": str(self.world.nodes[name])}
        self._patch(f"{make.NODES}/{name}/status", {"status": {"allocatable": amounts}})

    def do_lose(self, name: str) -> None:
        self.world.lost.add(name)
        self._patch(f"{make.NODES}/{name}", {"spec": {"taints": [_TAINT]}})
        conditions = [{"type": "Ready", "status": "Unknown"}]
        self._patch(f"{make.NODES}/{name}/status", {"status": {"conditions": conditions}})
        self.world.loop.call_later(EVICTED_AFTER, self._delete_pods_of, name)

    def _delete_pods_of(self, node: str) -> None:
        """As the garbage collector of pods does; they are gone at once, since no kubelet can say so."""
        if node in self.world.lost or self.world.ask("GET", f"{make.NODES}/{node}")[0] == 404:
            for pod in self.world.must("GET", make.PODS)["items"]:
                if pod["spec"].get("nodeName") == node:
                    self.attempt("DELETE", f"{make.PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    def do_return(self, name: str) -> None:
        self.world.lost.discard(name)
        self.world.processes["kubelets"].component.resume(name)
        self._patch(f"{make.NODES}/{name}", {"spec": {"taints": None}})
        self._patch(f"{make.NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    def do_delete_node(self, name: str) -> None:
        self.attempt("DELETE", f"{make.NODES}/{name}")
        self.world.loop.call_later(EVICTED_AFTER, self._delete_pods_of, name)

    def do_create_node(self, name: str) -> None:
        if self.world.ask("GET", f"{make.NODES}/{name}")[0] == 404:
            self.world.add_node(name, self.world.nodes[name])

    # -- machines and networks --------------------------------------------------------------------------------------

    def do_fault(self, fault: str, who: str, what: str, times: int, lasts: float, amount: float) -> None:
        until = min(self.world.loop.time() + lasts, self._calm)
        self.world.rules.armed.append(Rule(fault, who, what, times, until, amount))

    def do_kill(self, who: str) -> None:
        self.world.processes[who].kill()

    def do_stop(self, who: str) -> None:
        """A SIGTERM: it finishes what is in flight."""
        process = self.world.processes[who]
        if process.stop is not None:
            process.stop.set()

    def do_restart(self, who: str) -> None:
        self.world.processes[who].start()

    def do_freeze(self, who: str) -> None:
        self.world.processes[who].freeze()

    def do_thaw(self, who: str) -> None:
        self.world.processes[who].thaw()

    def do_trap(self, who: str, act: str, after: int, lasts: float, thinking: bool) -> None:
        """Kill or freeze it at one of its next awaits, wherever that is; or just when it has thought."""
        process = self.world.processes[who]

        def spring() -> None:
            self.world.rules.note(f"trap-{act}", f"{who[:-2]}{' that has thought' if thinking else ''}")
            self.world.server.stale(who, self.world.loop.time() + lasts + 3.0)
            process.freeze() if act == "freeze" else process.kill()
            back = process.thaw if act == "freeze" else process.start
            self.world.loop.call_later(lasts, back, context=NOBODY)

        process.owner.set_trap(after, spring, thinking=thinking)

    def do_meet(self, **meeting: Any) -> None:
        self.meetings.arm(meeting)

    def do_partition(self, who: str) -> None:
        self.world.server.network.partition(who)

    def do_heal(self, who: str) -> None:
        self.world.server.network.heal(who)

    def do_clock(self, who: str, by: float) -> None:
        self.world.processes[who].machine.offset += by

    def do_crash_server(self) -> None:
        self.world.server.crash()

    def do_start_server(self) -> None:
        self.world.server.recover()

    def do_compact(self) -> None:
        self.world.server.compact()

    # -- the end of all faults --------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Everything works again, and there is room for everybody."""
        world = self.world
        world.say("STEP", "calm")
        world.rules.clear()
        self.meetings.end()
        world.server.gaps.clear()
        world.server.recover()
        for name, process in world.processes.items():
            while world.server.network.is_cut_off(name):
                world.server.network.heal(name)
            process.owner.disarm()
            process.thaw()
            process.start()
        for name in sorted(self._bad):
            self.do_correct_job(name)
        for name in self._gone:
            world.loop.call_later(EVICTED_AFTER, self._delete_pods_of, name, context=NOBODY)
        for name in world.nodes:
            self.do_create_node(name)
            self.do_return(name)
            self.do_uncordon(name)
            self.do_grow(name)
        for name in SPARES:
            if world.ask("GET", f"{make.NODES}/{name}")[0] == 404:
                world.add_node(name, 64)
                if world.plan.has_volumes:
                    self._add_disks(name, 6)
