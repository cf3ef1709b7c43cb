"""The change writer, against a server whose responses the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from live.fake_api_server import FakeApiServer, always, status
from stromboli.api import (
    Condition,
    Container,
    Job,
    JobSpec,
    KObject,
    ObjectMeta,
    Pod,
    PodGroup,
    PodSpec,
    PodTemplateSpec,
    Queue,
    TaskSpec,
    decode_json,
    default,
)
from stromboli.cluster import Applied
from stromboli.controllers import Change, Create, Delete, EnsureOwned, Notify, OwnedObject, Update
from stromboli.controllers.pod_owners import owner_reference_to
from stromboli.kube.client import Client, TokenBucket
from stromboli.kube.controllers.cache import Cache
from stromboli.kube.controllers.change_writer import ChangeWriter, Outcome
from stromboli.kube.controllers.pod_templates import LiveJob
from stromboli.kube.runtime import SoleReplica

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"
PODS = "/api/v1/namespaces/ns/pods"


class Scene:
    """A server, what is known of it, and a changer that stands before it."""

    def __init__(self, server: FakeApiServer, client: Client) -> None:
        self.server = server
        self.cache = Cache([Job, Pod, PodGroup, Queue])
        self.written: list[KObject] = []
        self.recorded: list[tuple[str, str, str, bool]] = []
        self.deleted: list[str] = []
        self.fence = SoleReplica()
        self.now = 0.0
        self.writer = ChangeWriter(
            client,
            fence=self.fence,
            bucket=TokenBucket(10_000, 10_000),
            events=self,
            on_object=self.written.append,
            on_deleted=lambda obj: self.deleted.append(obj.metadata.name),
            clock=lambda: self.now,
        )

    def record(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        self.recorded.append((f"{kind.__name__} {key}", reason, message, warning))

    def there(self, obj: Any) -> Any:
        """An object that is on the server and known to us."""
        stored = self.server.put(msgspec.to_builtins(obj))
        read = decode_json(msgspec.json.encode(stored), type(obj))
        self.cache.apply(Applied(read))
        return read

    async def do(self, *changes: Change) -> Outcome:
        return await self.writer.write(changes, self.cache)

    def writes(self) -> list[tuple[str, str]]:
        return [(one.method, one.path) for one in self.server.seen if one.method != "GET"]


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with FakeApiServer() as server, Client(server.config()) as client:
            await story(Scene(server, client))

    asyncio.run(run())


def job(name: str = "j", **spec: Any) -> Job:
    made = Job(metadata=ObjectMeta(name=name, namespace="ns"), spec=JobSpec(tasks=[TaskSpec(name="t")], **spec))
    default(made)
    return made


def pod_of(owner: Job, index: int = 0) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=f"{owner.metadata.name}-t-{index}", namespace="ns", owner_references=[owner_reference_to(owner)]
        ),
        spec=PodSpec(containers=[Container(name="main")]),
    )


def in_phase(owner: Job, phase: str) -> Job:
    changed: Job = replace(owner, status=replace(owner.status, state=replace(owner.status.state, phase=phase)))
    return changed


class TestWhatIsSent:
    def test_an_update_says_what_differs_and_for_which_version(self) -> None:
        async def story(scene: Scene) -> None:
            queue = scene.there(Queue(metadata=ObjectMeta(name="q", annotations={"a": "1", "b": "2"})))
            wanted = replace(
                queue,
                metadata=replace(queue.metadata, annotations={"b": "3"}),
                status=replace(queue.status, state="Open", running=2),
            )
            outcome = await scene.do(Update(wanted))
            path = "/apis/scheduling.volcano.sh/v1beta1/queues/q"
            main, its_status = scene.server.asked("PATCH")
            assert (main.path, its_status.path) == (path, f"{path}/status")
            version = queue.metadata.resource_version
            assert main.body == {"metadata": {"annotations": {"a": None, "b": "3"}, "resourceVersion": version}}
            # The first write made a new version, and the second is about that one.
            assert its_status.body == {
                "metadata": {"resourceVersion": str(int(version) + 1)},
                "status": {"state": "Open", "running": 2},
            }
            assert [obj.metadata.resource_version for obj in scene.written] == [str(int(version) + n) for n in (1, 2)]
            assert outcome == Outcome()

        play(story)

    def test_what_becomes_nothing_is_removed(self) -> None:
        async def story(scene: Scene) -> None:
            queue = Queue(metadata=ObjectMeta(name="q"))
            queue.status.running = 3
            queue.status.conditions = [Condition(type="A")]
            known = scene.there(queue)
            await scene.do(Update(replace(known, status=replace(known.status, running=0, conditions=[]))))
            assert scene.server.asked("PATCH")[0].body["status"] == {"running": None, "conditions": None}
            stored = scene.server.stored("queues", "q")
            assert stored is not None
            assert not {"running", "conditions"} & stored["status"].keys()

        play(story)

    def test_a_deletion_is_of_that_very_object(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            pod = scene.there(pod_of(owner))
            await scene.do(Delete(pod), Delete(owner))
            bodies = {one.path: one.body for one in scene.server.asked("DELETE")}
            assert bodies[f"{PODS}/j-t-0"]["preconditions"] == {"uid": pod.metadata.uid}
            assert "gracePeriodSeconds" not in bodies[f"{PODS}/j-t-0"]  # it gets its own
            assert bodies[f"{JOBS}/j"]["propagationPolicy"] == "Background"
            assert sorted(scene.deleted) == ["j", "j-t-0"]

        play(story)

    def test_a_pod_carries_what_its_template_says_and_what_was_set(self) -> None:
        document = {
            "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
            "spec": {
                "tasks": [
                    {
                        "name": "t",
                        "template": {
                            "spec": {
                                "dnsPolicy": "None",
                                "securityContext": {"runAsUser": 7},
                                "containers": [
                                    {"name": "a", "tty": True, "env": [{"name": "A", "value": "1"}]},
                                    {"name": "b", "lifecycle": {"preStop": {}}},
                                ],
                            }
                        },
                    }
                ]
            },
        }

        async def story(scene: Scene) -> None:
            owner = decode_json(msgspec.json.encode(document), LiveJob)
            task = owner.spec.tasks[0]
            assert isinstance(task.template, PodTemplateSpec)
            first, second = task.template.spec.containers
            more = replace(first, env=[*first.env, {"name": "B", "value": "2"}])
            spec = replace(task.template.spec, scheduler_name="volcano", containers=[more, second])
            await scene.do(Create(replace(pod_of(owner), spec=spec), task))
            sent = scene.server.asked("POST")[0].body
            assert sent["metadata"]["name"] == "j-t-0"
            assert sent["spec"] == {
                "schedulerName": "volcano",
                "dnsPolicy": "None",
                "securityContext": {"runAsUser": 7},
                "containers": [
                    {"name": "a", "tty": True, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                    {"name": "b", "lifecycle": {"preStop": {}}},
                ],
            }

        play(story)


class TestOrder:
    def test_pods_wait_for_the_status_and_the_news_for_both(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            pod = scene.there(pod_of(owner))
            await scene.do(
                Notify(owner, "ExecuteAction", "because"), Delete(pod), Update(in_phase(owner, "Restarting"))
            )
            assert scene.writes() == [("PATCH", f"{JOBS}/j/status"), ("DELETE", f"{PODS}/j-t-0")]
            assert scene.recorded == [("Job ns/j", "ExecuteAction", "because", False)]

        play(story)

    def test_when_somebody_was_faster_nothing_of_the_errand_is_done(self) -> None:
        async def story(scene: Scene) -> None:
            owner, other = scene.there(job()), scene.there(job("k"))
            pod = scene.there(pod_of(owner))
            scene.server.put({**msgspec.to_builtins(owner), "apiVersion": owner.api_version})
            change = Update(in_phase(owner, "Restarting"))
            outcome = await scene.do(
                change, Delete(pod), Notify(owner, "ExecuteAction", ""), Update(in_phase(other, "Running"))
            )
            assert outcome.undone == [change]
            assert outcome.incomplete
            assert scene.server.stored("pods", "ns/j-t-0") is not None
            assert scene.recorded == []
            stored = scene.server.stored("jobs", "ns/k")  # another job's errand is none of its business
            assert stored is not None
            assert stored["status"]["state"]["phase"] == "Running"

        play(story)

    def test_what_is_there_already_is_fine(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            scene.server.put(msgspec.to_builtins(pod_of(owner)))
            outcome = await scene.do(Create(pod_of(owner)))
            assert outcome == Outcome()
            assert scene.recorded == []

        play(story)

    def test_what_is_gone_already_is_fine(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            pod = scene.there(pod_of(owner))
            scene.server.remove(msgspec.to_builtins(pod))
            assert await scene.do(Delete(pod)) == Outcome()

        play(story)


class TestFailures:
    def test_a_thousand_forbidden_pods_cost_one_refusal_and_then_a_pause(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            scene.server.instead("POST", PODS, always(lambda: status(403, "Forbidden", "exceeded quota")), times=9)
            new = [Create(pod_of(owner, index)) for index in range(1000)]
            await scene.do(*new)
            assert len(scene.server.asked("POST")) == 1
            said = "Pod j-t-0 could not be created: exceeded quota"
            assert scene.recorded == [("Job ns/j", "FailedCreate", said, True)]
            due = scene.writer.backoff.next_retry()
            assert due is not None
            await scene.do(*new)
            assert len(scene.server.asked("POST")) == 1
            scene.now = due + 0.01
            await scene.do(*new)
            assert len(scene.server.asked("POST")) == 2

        play(story)

    def test_a_plain_pod_is_told_why_it_gets_no_group(self) -> None:
        async def story(scene: Scene) -> None:
            plain = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
            group = PodGroup(metadata=ObjectMeta(name="podgroup-u", namespace="ns"))
            annotations = {"scheduling.k8s.io/group-name": "podgroup-u"}
            grouped = replace(plain, metadata=replace(plain.metadata, annotations=annotations))
            refusal = always(lambda: status(422, "Invalid", 'spec.queue: Invalid value: "Bad_Name"'))
            scene.server.instead("POST", "/podgroups", refusal)
            await scene.do(Create(group), Update(grouped))
            said = 'PodGroup podgroup-u could not be created: spec.queue: Invalid value: "Bad_Name"'
            assert scene.recorded == [("Pod ns/p", "FailedCreate", said, True)]

        play(story)

    def test_after_a_refusal_the_status_is_still_written(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            scene.server.instead("POST", PODS, always(lambda: status(403, "Forbidden")))
            await scene.do(Create(pod_of(owner)))
            await scene.do(Update(in_phase(owner, "Pending")), Create(pod_of(owner)))
            assert scene.writes()[-1] == ("PATCH", f"{JOBS}/j/status")

        play(story)

    def test_when_the_server_cannot_be_reached_the_rest_is_left(self) -> None:
        async def story(scene: Scene) -> None:
            owners = [scene.there(job(f"j{index}")) for index in range(200)]
            config = scene.server.config()
            async with FakeApiServer() as gone:
                config = gone.config()
            async with Client(config, timeout=1.0) as client:
                scene.writer._client = client
                outcome = await scene.do(*(Update(in_phase(owner, "Pending")) for owner in owners))
            assert len(outcome.undone) == 200
            assert outcome.incomplete

        play(story)

    def test_who_does_not_lead_writes_nothing(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            change = Update(in_phase(owner, "Pending"))
            scene.fence.is_leader = False
            outcome = await scene.do(change, Create(pod_of(owner)))
            assert scene.writes() == []
            assert outcome.undone == [change]

        play(story)

    def test_when_the_time_is_over_nothing_more_is_begun(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())

            async def slow(request: Any) -> Any:
                scene.now += 5
                return status(409, "AlreadyExists")

            scene.server.instead("POST", PODS, slow)
            outcome = await scene.do(*(Create(pod_of(owner, index)) for index in range(100)))
            assert len(scene.server.asked("POST")) == 1
            assert outcome.incomplete

        play(story)


CLAIM = "PersistentVolumeClaim"


class TestBelongings:
    def test_they_are_owned_by_the_job_and_changed_only_if_they_may_be(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            lists = OwnedObject("v1", "ConfigMap", "j-svc", lambda: {"data": {"n": "1"}})
            keys = OwnedObject("v1", "Secret", "j-ssh", lambda: {"data": {"k": "a"}}, unread=True)
            await scene.do(EnsureOwned(owner, lists), EnsureOwned(owner, keys))
            stored = scene.server.stored("configmaps", "ns/j-svc")
            assert stored is not None
            assert stored["metadata"]["ownerReferences"][0]["uid"] == owner.metadata.uid
            await scene.do(
                EnsureOwned(owner, OwnedObject("v1", "ConfigMap", "j-svc", lambda: {"data": {"n": "2"}})),
                EnsureOwned(owner, OwnedObject("v1", "Secret", "j-ssh", lambda: {"data": {"k": "b"}}, unread=True)),
            )
            changed, kept = (
                scene.server.stored("configmaps", "ns/j-svc"),
                scene.server.stored("secrets", "ns/j-ssh"),
            )
            assert changed is not None
            assert kept is not None
            assert (changed["data"], kept["data"]) == ({"n": "2"}, {"k": "a"})
            assert {one.method for one in scene.server.seen if "/secrets" in one.path} == {"POST"}, "it is never read"

        play(story)

    def test_somebody_elses_are_not_touched_and_no_pod_is_made(self) -> None:
        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            theirs = {"apiVersion": "v1", "kind": CLAIM, "metadata": {"name": "j-volume-0", "namespace": "ns"}}
            scene.server.put(theirs)
            keys = OwnedObject("v1", CLAIM, "j-volume-0", lambda: {"data": {"k": "a"}}, create_only=True)
            outcome = await scene.do(
                EnsureOwned(owner, keys), Update(in_phase(owner, "Pending")), Create(pod_of(owner))
            )
            assert [type(change).__name__ for change in outcome.undone] == ["EnsureOwned", "Update"]
            assert scene.server.stored("pods", "ns/j-t-0") is None
            refusal = f"there is a {CLAIM} j-volume-0 that does not belong to the job"
            said = f"{CLAIM} j-volume-0 could not be created: {refusal}"
            assert scene.recorded == [("Job ns/j", "FailedCreate", said, True)]

        play(story)

    def test_what_cannot_be_had_is_asked_for_ever_more_rarely_though_the_rest_can(self) -> None:
        """A minute of passes. At the soonest the tries are at 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 seconds (and 60 with
        rounding), at the latest at 0, 1, 3, 7, 15 and 31."""

        async def story(scene: Scene) -> None:
            owner = scene.there(job())
            theirs = {"apiVersion": "v1", "kind": CLAIM, "metadata": {"name": "j-volume-0", "namespace": "ns"}}
            scene.server.put(theirs)
            lists = OwnedObject("v1", "ConfigMap", "j-svc", lambda: {"data": {"n": "1"}})
            keys = OwnedObject("v1", CLAIM, "j-volume-0", lambda: {"data": {"k": "a"}}, create_only=True)
            for _ in range(600):
                await scene.do(EnsureOwned(owner, lists), EnsureOwned(owner, keys))
                scene.now += 0.1
            assert 6 <= len(scene.recorded) <= 8
            scene.server.remove(theirs)
            scene.now += 60
            await scene.do(EnsureOwned(owner, lists), EnsureOwned(owner, keys))
            assert scene.server.stored("persistentvolumeclaims", "ns/j-volume-0") is not None
            assert scene.writer.backoff.next_retry() is None

        play(story)


class TestNames:
    def test_a_pod_whose_name_another_job_has_is_refused_and_not_tried_all_the_time(self) -> None:
        async def story(scene: Scene) -> None:
            first, second = scene.there(job("a")), scene.there(job("b"))
            taken = pod_of(first)
            scene.there(replace(taken, metadata=replace(taken.metadata, name="b-t-0")))
            wanted = Create(pod_of(second))
            for _ in range(3):
                await scene.do(wanted)
            assert len(scene.server.asked("POST")) == 1
            message = "Pod b-t-0 could not be created: there is a Pod of that name that belongs to another object"
            assert scene.recorded == [("Job ns/b", "FailedCreate", message, True)]

        play(story)

    def test_a_predecessor_that_is_going_is_only_waited_for(self) -> None:
        async def story(scene: Scene) -> None:
            first, second = scene.there(job("a")), scene.there(job("b"))
            going = pod_of(first)
            metadata = replace(going.metadata, name="b-t-0", deletion_timestamp="2030-01-01T00:00:00Z")
            scene.there(replace(going, metadata=metadata))
            for _ in range(3):
                await scene.do(Create(pod_of(second)))
            assert len(scene.server.asked("POST")) == 3
            assert scene.recorded == []

        play(story)
