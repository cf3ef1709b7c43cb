"""The controllers' loop: from events to writes, with faults of the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from live.fake_api_server import FakeApiServer, always, status
from stromboli.kube.client import Client, TokenBucket
from stromboli.kube.controllers import ControllerMetrics, ControllersComponent
from stromboli.kube.runtime import LoopLag, ProcessMetrics, SoleReplica

Document = dict[str, Any]

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/ns/commands"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"


class Scene:
    def __init__(self, server: FakeApiServer, client: Client) -> None:
        self.server = server
        self.fence = SoleReplica()
        self._client = client
        self._process: ControllersComponent | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stop = asyncio.Event()
        self._process = ControllersComponent(
            self._client,
            leadership=self.fence,
            scheduler_name="volcano",
            bucket=lambda: TokenBucket(10_000, 10_000),
            metrics=ControllerMetrics(ProcessMetrics(CollectorRegistry(), LoopLag())),
        )
        self._task = asyncio.create_task(self._process.run(self._stop))
        await self.until(lambda: self._process is not None and self._process.not_ready_reason() is None)

    async def stop(self) -> None:
        assert self._task is not None
        self._stop.set()
        await asyncio.wait_for(self._task, 60)
        self._task = None

    async def kill(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, check: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not check():
            assert self._task is None or not self._task.done(), self._task
            assert time.monotonic() < deadline, "not so within a minute"
            await asyncio.sleep(0.01)

    # What is on the server

    def get(self, plural: str, name: str) -> Document:
        return self.server.stored(plural, f"ns/{name}") or self.server.stored(plural, name) or {}

    def state(self, job: str) -> Document:
        state: Document = self.get("jobs", job).get("status", {}).get("state", {})
        return state

    def pods(self) -> list[str]:
        return sorted(name for plural, _, name in self.server._objects if plural == "pods")

    def events(self) -> list[str]:
        return [one.body["reason"] for one in self.server.asked("POST", "/events")]

    # What happens to it

    def submit(self, name: str = "j", replicas: int = 1, **spec: Any) -> Document:
        task = {
            "name": "t",
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "main", "image": "work", "tty": True}]}},
        }
        return self.server.put(
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {"name": name, "namespace": "ns"},
                "spec": {"tasks": [task], **spec},
            }
        )

    async def let_in(self, job: Document, version: int = 0) -> None:
        """What a scheduler does to the group of a job's version."""
        name = f"{job['metadata']['name']}-{job['metadata']['uid']}"

        def said() -> str:
            metadata = self.get("podgroups", name).get("metadata", {})
            return str(metadata.get("annotations", {}).get("volcano.sh/job-version", ""))

        await self.until(lambda: said() == str(version))
        self.change("podgroups", name, status={"phase": "Inqueue"})

    def change(self, plural: str, name: str, **parts: Any) -> None:
        self.server.put({**self.get(plural, name), **parts})

    def order(self, action: str, target: str, kind: str = "Job", name: str = "order") -> None:
        self.server.put(
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"name": name, "namespace": "ns" if kind == "Job" else "default"},
                "action": action,
                "target": {"kind": kind, "name": target},
            }
        )


def play(story: Callable[[Scene], Coroutine[Any, Any, None]], *, start: bool = True) -> None:
    async def run() -> None:
        async with FakeApiServer() as server, Client(server.config()) as client:
            scene = Scene(server, client)
            try:
                if start:
                    await scene.start()
                await story(scene)
                if start:
                    await scene.stop()
            finally:
                await scene.kill()

    asyncio.run(run())


def test_a_job_gets_a_group_and_complete_pods() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(replicas=2)
        await scene.let_in(job)
        await scene.until(lambda: scene.pods() == ["j-t-0", "j-t-1"])
        assert scene.get("pods", "j-t-0")["spec"]["containers"] == [{"name": "main", "image": "work", "tty": True}]
        await scene.until(lambda: scene.get("queues", "default") and scene.get("queues", "root"))

    play(story)


def test_a_job_whose_plugin_needs_a_missing_permission_says_so_and_continues_with_it() -> None:
    async def story(scene: Scene) -> None:
        forbidden = 'configmaps is forbidden: User "x" cannot create resource "configmaps"'
        scene.server.instead("POST", "/configmaps", always(lambda: status(403, "Forbidden", forbidden)))
        job = scene.submit(plugins={"svc": []})
        await scene.until(lambda: scene.state("j").get("reason") == "FailedCreate")
        assert scene.state("j") | {"lastTransitionTime": ""} == {
            "phase": "Pending",
            "reason": "FailedCreate",
            "message": f"ConfigMap j-svc could not be created: {forbidden}; "
            "the plugins of Jobs need the permissions of deploy/components/job-plugins",
            "lastTransitionTime": "",
        }
        await scene.until(lambda: "FailedCreate" in scene.events())
        await scene.let_in(job)
        await scene.until(lambda: scene.pods() == ["j-t-0"])
        await scene.until(lambda: "reason" not in scene.state("j"))

    play(story)


def test_a_large_job_keeps_nobody_waiting() -> None:
    """The small job comes later by name; its pods are still created long before the last one of the large job."""

    async def story(scene: Scene) -> None:
        large, small = scene.submit("a-large", replicas=2500), scene.submit("b-small", replicas=2)
        await scene.let_in(large)
        await scene.let_in(small)
        await scene.until(lambda: len(scene.pods()) == 2502)
        created = [one.body["metadata"]["name"] for one in scene.server.asked("POST", "/pods")]
        assert max(created.index("b-small-t-0"), created.index("b-small-t-1")) < 2000

    play(story)


def test_a_job_with_too_many_replicas_is_refused_and_others_go_on() -> None:
    async def story(scene: Scene) -> None:
        scene.submit("a-huge", replicas=300_000)
        await scene.until(lambda: scene.state("a-huge").get("reason") == "Invalid")
        assert "must have at most 50000 replicas together, not 300000" in scene.state("a-huge")["message"]
        small = scene.submit("b-small", replicas=2)
        await scene.let_in(small)
        await scene.until(lambda: len(scene.pods()) == 2)
        await scene.until(lambda: "Invalid" in scene.events())

    play(story)


def test_after_a_pass_that_was_suspended_it_goes_on_at_once() -> None:
    """It rests after a pass by what that used of a processor. Time in which the machine did not run it is no use: a
    leader that was stopped for a quarter of a minute would do nothing for a whole one."""

    async def story(scene: Scene) -> None:
        assert scene._process is not None
        clock = iter(range(0, 1_000_000_000, 1000))
        scene._process._loop_time = lambda: float(next(clock))  # type: ignore[method-assign]
        scene.submit("first")
        await scene.until(lambda: scene.state("first").get("phase") == "Pending")
        scene.submit("second")
        await scene.until(lambda: scene.state("second").get("phase") == "Pending")

    play(story)


def test_it_stops_writing_when_nothing_changes() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(plugins={"svc": []})
        await scene.let_in(job)
        await scene.until(scene.pods)
        await scene.until(lambda: scene.state("j").get("phase"))
        writes = -1
        while writes != (writes := len([one for one in scene.server.seen if one.method != "GET"])):
            scene.change("queues", "default")  # something to look at, and nothing to do
            await asyncio.sleep(0.4)

    play(story)


def test_a_deleted_pod_is_reported_once() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(replicas=2, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        await scene.let_in(job)
        await scene.until(lambda: len(scene.pods()) == 2)
        first = scene.get("pods", "j-t-0")
        scene.server.put({**first, "metadata": {**first["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}})
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount") == 1)
        scene.server.remove(scene.get("pods", "j-t-0"))
        await scene.let_in(job, version=1)
        await scene.until(lambda: len(scene.pods()) == 2)
        assert scene.get("jobs", "j")["status"]["retryCount"] == 1

    play(story)


def test_a_pod_deleted_before_we_started_is_found_in_the_status() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(replicas=1, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        await scene.start()
        await scene.let_in(job)
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("livePods") == {"t": "0"})
        await scene.stop()
        scene.server.remove(scene.get("pods", "j-t-0"))
        await scene.start()
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount") == 1)
        await scene.let_in(job, version=1)
        await scene.until(scene.pods)
        assert scene.get("jobs", "j")["status"]["retryCount"] == 1
        await scene.stop()

    play(story, start=False)


def test_a_pod_whose_deletion_was_handled_is_not_handled_again() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(replicas=2, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        await scene.start()
        await scene.let_in(job)
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("livePods") == {"t": "0-1"})
        left = scene.get("pods", "j-t-0")
        scene.server.put({**left, "metadata": {**left["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}})
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount") == 1)
        await scene.stop()
        await scene.start()
        scene.server.remove(scene.get("pods", "j-t-0"))
        await scene.let_in(job, version=1)
        await scene.until(lambda: len(scene.pods()) == 2)
        assert scene.get("jobs", "j")["status"]["retryCount"] == 1
        await scene.stop()

    play(story, start=False)


def test_a_deleted_pod_is_handled_although_the_first_write_failed() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(replicas=2, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        await scene.let_in(job)
        await scene.until(lambda: len(scene.pods()) == 2)
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("pending") == 2)
        scene.server.instead("PATCH", JOBS, always(lambda: status(409, "Conflict")))
        scene.server.remove(scene.get("pods", "j-t-0"))
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount") == 1)

    play(story)


class TestDeletions:
    def test_a_pod_whose_deletion_meets_a_conflict_is_deleted_later(self) -> None:
        async def story(scene: Scene) -> None:
            await scene.let_in(scene.submit(replicas=2, minAvailable=1))
            await scene.until(lambda: len(scene.pods()) == 2)
            scene.server.instead("DELETE", "/pods/", always(lambda: status(409, "Conflict")), times=2)
            spec = scene.get("jobs", "j")["spec"]
            scene.change("jobs", "j", spec={**spec, "tasks": [{**spec["tasks"][0], "replicas": 1}]})
            await scene.until(lambda: len(scene.pods()) == 1)
            assert len(scene.server.asked("DELETE", "/pods/")) == 3
            assert scene.server.asked("GET", "/pods/j-t-1")  # whether it is still there

        play(story)


class TestCommands:
    def test_one_for_a_queue_from_the_namespace_of_a_tenant_is_refused(self) -> None:
        """Whoever may edit a namespace may create Commands there. A queue is everybody's."""

        async def story(scene: Scene) -> None:
            scene.server.put(
                {
                    "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
                    "metadata": {"name": "order", "namespace": "ns"}, "action": "CloseQueue",
                    "target": {"kind": "Queue", "name": "default"},
                }
            )  # fmt: skip
            await scene.until(lambda: scene.server.asked("DELETE", COMMANDS))
            await scene.until(lambda: scene.server.asked("POST", "namespaces/ns/events"))
            assert scene.get("queues", "default").get("status", {}).get("state", "Open") == "Open"

        play(story)

    def test_one_that_somebody_else_has_taken_is_not_obeyed(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))
            scene.server.instead("DELETE", COMMANDS, always(lambda: status(404, "NotFound")))
            scene.order("AbortJob", "j")
            await scene.until(lambda: scene.server.asked("DELETE", COMMANDS))
            scene.server.remove(scene.get("commands", "order"))
            scene.order("CloseQueue", "default", kind="Queue", name="later")
            await scene.until(lambda: scene.get("queues", "default").get("status", {}).get("state") == "Closing")
            assert scene.state("j")["phase"] == "Pending"

        play(story)

    def test_one_that_could_not_be_deleted_is_obeyed_later_and_once(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))
            scene.server.instead("DELETE", COMMANDS, always(lambda: status(500, "InternalError")))
            scene.order("RestartJob", "j")
            await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount"))
            assert len(scene.server.asked("DELETE", COMMANDS)) == 2
            assert scene.get("jobs", "j")["status"]["retryCount"] == 1

        play(story)

    def test_one_whose_deletion_meets_a_conflict_is_still_there_and_obeyed_later(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))
            scene.server.instead("DELETE", COMMANDS, always(lambda: status(409, "Conflict")), times=2)
            scene.order("RestartJob", "j")
            await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount"))
            assert len(scene.server.asked("DELETE", COMMANDS)) == 3
            assert scene.get("jobs", "j")["status"]["retryCount"] == 1

        play(story)

    def test_one_that_was_deleted_without_an_answer_is_obeyed_once(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))

            async def lost(request: Any) -> Any:
                scene.server.remove(scene.get("commands", "order"))
                return status(500, "InternalError")

            scene.server.instead("DELETE", COMMANDS, lost)
            scene.order("RestartJob", "j")
            await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount"))
            scene.order("AbortJob", "j", name="later")
            await scene.until(lambda: scene.state("j")["phase"] == "Aborted")
            assert scene.get("jobs", "j")["status"]["retryCount"] == 1

        play(story)

    def test_one_whose_consequence_could_not_be_written_is_obeyed_again(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))
            scene.server.instead("PATCH", JOBS, always(lambda: status(409, "Conflict")), times=2)
            scene.order("AbortJob", "j")
            await scene.until(lambda: scene.state("j")["phase"] == "Aborted")
            assert len(scene.server.asked("DELETE", COMMANDS)) == 1

        play(story)

    def test_those_for_one_job_are_obeyed_one_after_the_other(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))
            scene.order("AbortJob", "j", name="a")
            scene.order("ResumeJob", "j", name="b")
            await scene.until(lambda: not scene.get("commands", "a") and not scene.get("commands", "b"))
            await scene.until(lambda: scene.state("j")["phase"] == "Pending")
            assert scene.get("jobs", "j")["status"]["retryCount"] == 1

        play(story)

    def test_the_next_stays_on_the_server_until_the_last_is_obeyed(self) -> None:
        async def story(scene: Scene) -> None:
            scene.submit()
            await scene.until(lambda: scene.state("j"))
            waiting: list[bool] = []

            async def conflict(request: Any) -> Any:
                waiting.append(bool(scene.get("commands", "b")))
                return status(409, "Conflict")

            scene.server.instead("PATCH", JOBS, conflict, times=3)
            scene.order("AbortJob", "j", name="a")
            scene.order("ResumeJob", "j", name="b")
            await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount") == 1)
            assert waiting == [True, True, True]

        play(story)

    def test_one_that_makes_no_sense_is_refused(self) -> None:
        async def story(scene: Scene) -> None:
            scene.order("AbortJob", "j", kind="Deployment")
            await scene.until(lambda: not scene.get("commands", "order"))
            await scene.until(lambda: "CommandRefused" in scene.events())

        play(story)

    def test_one_that_is_heard_of_before_its_job_waits_for_it(self) -> None:
        async def story(scene: Scene) -> None:
            await scene.until(lambda: scene.get("queues", "root").get("status"))
            scene.order("AbortJob", "j")
            scene.change("queues", "root")
            await asyncio.sleep(0.3)
            scene.submit()
            await scene.until(lambda: scene.state("j").get("phase") == "Aborted")

        play(story)


def test_a_standby_follows_events_and_knows_everything_when_it_takes_over() -> None:
    async def story(scene: Scene) -> None:
        scene.fence.is_leader = False
        await scene.start()
        scene.submit()
        await asyncio.sleep(0.5)
        assert not [one for one in scene.server.seen if one.method != "GET"]
        scene.fence.is_leader = True
        await scene.until(lambda: scene.state("j").get("phase") == "Pending")
        await scene.stop()

    play(story, start=False)


def test_a_job_is_deleted_after_its_ttl_without_any_event() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(ttlSecondsAfterFinished=1)
        await scene.let_in(job)
        await scene.until(scene.pods)
        scene.change("pods", "j-t-0", status={"phase": "Succeeded"})
        await scene.until(lambda: not scene.get("jobs", "j"))
        deleted = scene.server.asked("DELETE", JOBS)
        assert [one.body["propagationPolicy"] for one in deleted] == ["Background"]

    play(story)


def test_a_refused_write_is_retried_without_any_event() -> None:
    async def story(scene: Scene) -> None:
        scene.server.instead(
            "POST", "/podgroups", always(lambda: status(403, "Forbidden", "the namespace is terminating")), times=1
        )
        scene.submit()
        await scene.until(lambda: "FailedCreate" in scene.events())
        await scene.until(lambda: any(place[0] == "podgroups" for place in scene.server._objects))

    play(story)


def test_a_policy_acts_once_although_the_watch_shows_the_deletion_late() -> None:
    async def story(scene: Scene) -> None:
        job = scene.submit(replicas=2, policies=[{"event": "PodFailed", "action": "RestartPod"}])
        await scene.let_in(job)
        await scene.until(lambda: len(scene.pods()) == 2)
        first = scene.get("pods", "j-t-0")["metadata"]["uid"]
        # The server takes the deletion and shows it much later, as one with a busy watch does.
        scene.server.instead("DELETE", "/pods/j-t-0", always(lambda: status(200, "")))
        scene.change("pods", "j-t-0", status={"phase": "Failed"})
        await scene.until(lambda: scene.get("jobs", "j")["status"].get("retryCount") == 1)
        for _ in range(5):
            scene.change("queues", "default")
            await asyncio.sleep(0.15)
        assert scene.get("jobs", "j")["status"]["retryCount"] == 1
        scene.server.remove(scene.get("pods", "j-t-0"))
        await scene.until(lambda: scene.get("pods", "j-t-0").get("metadata", {}).get("uid", first) != first)
        assert scene.get("jobs", "j")["status"]["retryCount"] == 1

    play(story)


@pytest.mark.parametrize(("served", "queue"), [(True, "research"), (False, "default")])
def test_a_stateful_set_names_the_queue_of_its_pods_where_the_server_has_that_kind(served: bool, queue: str) -> None:
    async def story(scene: Scene) -> None:
        if not served:
            scene.server.instead("GET", "/statefulsets$", always(lambda: status(404, "NotFound")), times=1_000_000)
        # Asked again until the server answers.
        scene.server.instead("GET", "/statefulsets$", always(lambda: status(400, "BadRequest")))
        metadata = {"name": "db", "namespace": "ns", "annotations": {"scheduling.volcano.sh/queue-name": "research"}}
        owner = scene.server.put(
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {"replicas": 1}}
        )
        await scene.start()
        uid = owner["metadata"]["uid"]
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid, "controller": True}
        scene.server.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "db-0", "namespace": "ns", "ownerReferences": [reference]},
                "spec": {"schedulerName": "volcano", "containers": [{"name": "main"}]},
            }
        )
        await scene.until(lambda: scene.get("podgroups", f"podgroup-{uid}").get("spec", {}).get("queue") == queue)
        await scene.stop()

    play(story, start=False)
