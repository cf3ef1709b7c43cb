"""The scheduler's loop: from events to writes, leadership, failures and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from builders import group, node, pod, queue
from live.fake_api import FakeApi, Fate, lost_after, refused, until, with_virtual_time
from live.scheduler_harness import Lease, Process, assert_ledger_is_what_is_there, make, running
from stromboli.api import Pod, PodGroup, Queue, Reservation, key, names
from stromboli.api.waiting_reservations import waiting_reservation
from stromboli.cluster import Status, TaskKey
from stromboli.kube.client import Event


def gang_of_two(api: FakeApi, name: str = "g", *, cpu: float = 3) -> None:
    api.put(group(f"ns/{name}", min_member=2))
    for index in range(2):
        api.put(pod(f"ns/{name}-{index}", cpu=cpu, group=name))


def two_nodes(api: FakeApi) -> None:
    for name in ("n1", "n2"):
        api.put(node(name, cpu=4))


def where(api: FakeApi) -> dict[str, str]:
    return {key(one): one.spec.node_name for one in api.all(Pod) if one.spec.node_name}


def bound_keys(api: FakeApi) -> list[str]:
    return sorted(bound for bound, _, _ in api.binds)


def status(process: Process, task: str) -> Status:
    return process.cluster.tasks[TaskKey(task)].true_status


def events(api: FakeApi, reason: str) -> list[str]:
    return sorted(event.message for event in api.all(Event) if event.reason == reason)


# -- deciding --------------------------------------------------------------------------------------------------------


def test_a_gang_is_bound_with_status_and_events() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)
        async with running(process):
            await until(lambda: process.not_ready_reason() is None)
            gang_of_two(api)
            await until(lambda: len(api.binds) == 2)
            await asyncio.sleep(5.0)
            assert_ledger_is_what_is_there(process, api)
        assert where(api) == {"ns/g-0": "n1", "ns/g-1": "n2"}
        assert api.stored(PodGroup, "ns/g").status.phase == "Running"  # type: ignore[union-attr]
        assert api.stored(Queue, "default").status.allocated == {"cpu": "6"}  # type: ignore[union-attr]
        assert events(api, "Scheduled") == ["Bound to n1.", "Bound to n2."]

    with_virtual_time(story())


def test_a_gang_that_does_not_fit_is_not_split_and_has_a_reason() -> None:
    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        gang_of_two(api)
        process = make(api)
        async with running(process):
            await until(lambda: events(api, "FailedScheduling"))
            await asyncio.sleep(5.0)
            assert_ledger_is_what_is_there(process, api)
        assert api.binds == []
        [condition] = api.stored(Pod, "ns/g-0").status.conditions  # type: ignore[union-attr]
        assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
        # Said once, and not again in every cycle.
        assert len([one for one in api.patches if one[1] == "ns/g-0"]) == 1

    with_virtual_time(story())


def test_nothing_is_decided_before_every_list_is_there() -> None:
    def late(verb: str, key: str) -> Fate:
        return Fate(acts=8.0) if (verb, key) == ("list", "pods") else Fate()

    async def story() -> None:
        api = FakeApi(fate=late)
        api.put(node("n1", cpu=4))
        api.put(pod("ns/runs", cpu=3, node="n1"))  # known last: without it there seems to be room
        api.put(group("ns/g"))
        api.put(pod("ns/waits", cpu=3, group="g"))
        process = make(api)
        async with running(process):
            await asyncio.sleep(5.0)
            assert process.not_ready_reason() == "it has not listed every Pod yet"
            assert process.cycles == 0
            await until(lambda: process.cycles > 2)
            assert process.not_ready_reason() is None
        assert api.binds == []

    with_virtual_time(story())


def test_heartbeats_cause_no_cycles() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api, period=600.0)
        async with running(process):
            await until(lambda: process.cycles >= 1)
            await asyncio.sleep(10.0)
            before = process.cycles
            for _ in range(50):
                two_nodes(api)
                await asyncio.sleep(1.0)
            assert process.cycles == before
            api.put(node("n1", cpu=8))
            await asyncio.sleep(1.0)
            assert process.cycles == before + 1

    with_virtual_time(story())


def test_a_stream_of_events_leaves_most_of_the_time_to_others() -> None:
    """A cycle takes 0.2 s, so there is one in 1.2 s: at most 10 in 12 s, and one more for the credit of 1 s."""

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=1000))
        process = make(api, period=600.0)
        process.thinks = 0.2
        async with running(process):
            await until(lambda: process.cycles >= 1)
            await asyncio.sleep(60.0)
            before = process.cycles
            for number in range(240):
                api.put(group(f"ns/g{number}"))
                api.put(pod(f"ns/g{number}-0", cpu=1, group=f"g{number}"))
                await asyncio.sleep(0.05)
            assert 8 <= process.cycles - before <= 11

    with_virtual_time(story())


def test_after_a_quiet_time_a_pod_does_not_wait_because_the_last_cycle_took_long() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api, period=600.0)
        process.thinks = 4.0
        async with running(process):
            await until(lambda: process.cycles >= 1)
            await asyncio.sleep(60.0)
            process.thinks = 0.0
            gang_of_two(api)
            await asyncio.sleep(1.0)
            assert bound_keys(api) == ["ns/g-0", "ns/g-1"]

    with_virtual_time(story())


def test_a_long_cycle_that_would_decide_the_same_again_is_not_repeated_all_the_time() -> None:
    """A cycle takes 1 s, for a pod that no node has room for. Once it is known, the next one comes 20 s later; and who
    comes in between does not wait for one that is under way."""

    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)
        process.thinks = 1.0
        async with running(process):
            await until(lambda: process.cycles >= 1)
            api.put(group("crowd/g"))
            api.put(pod("crowd/p", cpu=40, group="g"))
            await asyncio.sleep(60.0)
            before = process.cycles
            await asyncio.sleep(60.0)
            assert 2 <= process.cycles - before <= 4
            process.thinks = 0.0
            gang_of_two(api)
            await asyncio.sleep(1.0)
            assert bound_keys(api) == ["ns/g-0", "ns/g-1"]
            before = process.cycles
            await asyncio.sleep(10.0)
            assert process.cycles - before >= 9  # it takes no time now, so there is one in each period

    with_virtual_time(story())


def test_our_own_writes_cause_no_cycles() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api, period=600.0)
        async with running(process):
            await until(lambda: api.stored(Queue, "default"))
            await asyncio.sleep(10.0)
            gang_of_two(api)
            gang_of_two(api, "waits")
            before = process.cycles
            await asyncio.sleep(60.0)
            assert len(api.binds) == 2
            assert len(api.patches) >= 4  # two pods, two groups
            assert process.cycles == before + 1

    with_virtual_time(story())


def test_a_pod_deleted_while_the_cycle_runs_is_not_missed() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)

        def remove_one() -> None:
            """It has decided, and its binds have not left yet."""
            if "ns/g-1" in process.cluster.tasks:
                assert status(process, "ns/g-1") is Status.BINDING
                assert api.count("bind") == 0
                api.remove(Pod, "ns/g-1")
                process.after_cycle = lambda: None

        async with running(process):
            await until(lambda: process.cycles >= 1)
            process.after_cycle = remove_one
            gang_of_two(api)
            await asyncio.sleep(20.0)
            assert bound_keys(api) == ["ns/g-0"]
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def test_a_pod_of_the_same_name_that_came_while_the_cycle_ran_gets_a_bind_of_its_own() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)
        first: list[str] = []

        def replace() -> None:
            if not first and "ns/p" in process.cluster.tasks:
                first.append(process.cluster.tasks[TaskKey("ns/p")].uid)
                api.remove(Pod, "ns/p")
                api.put(pod("ns/p", cpu=3, group="g"))

        process.after_cycle = replace
        async with running(process):
            await until(lambda: process.cycles >= 1)
            api.put(group("ns/g"))
            api.put(pod("ns/p", cpu=3, group="g"))
            await asyncio.sleep(20.0)
            [(_, uid, _)] = api.binds
            assert first
            assert uid != first[0]
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def test_a_slow_failure_of_an_old_pod_does_not_free_what_the_new_one_was_given() -> None:
    """n1 has room for one. The old pod's bind hangs; the pod is replaced and the new one bound there. Then the old
    bind fails: if that were the new one's failure, the third pod would get the same room."""
    late = iter([Fate(acts=None, answers=3.0, says=refused(404, "NotFound").says)])

    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: next(late, Fate()) if verb == "bind" else Fate())
        api.put(node("n1", cpu=4))
        api.put(group("ns/g"))
        api.put(pod("ns/p", cpu=3, group="g"))
        process = make(api)
        async with running(process):
            await until(lambda: api.count("bind") == 1)
            api.remove(Pod, "ns/p")
            api.put(pod("ns/p", cpu=3, group="g"))
            api.lag = 10.0  # what comes of the second is long in coming
            await until(lambda: len(api.binds) == 1)
            statuses: set[Status] = set()
            for _ in range(60):
                await asyncio.sleep(0.1)
                statuses.add(status(process, "ns/p"))
            assert statuses == {Status.BINDING}
            assert api.count("bind") == 2
            await asyncio.sleep(20.0)
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def test_an_event_from_before_the_bind_does_not_undo_it() -> None:
    async def story() -> None:
        api = FakeApi(lag=1.5)
        api.put(node("n1", cpu=4))
        api.put(group("ns/g", min_member=1))
        api.put(pod("ns/a", cpu=3, group="g"))
        process = make(api)

        def change() -> None:
            process.before_cycle = lambda: None
            api.put(pod("ns/a", cpu=3, group="g", labels={"seen": "late"}))

        process.before_cycle = change
        async with running(process):
            await until(lambda: len(api.binds) == 1)
            assert status(process, "ns/a") is Status.BINDING
            await asyncio.sleep(1.0)
            assert status(process, "ns/a") is Status.BINDING
            await asyncio.sleep(10.0)
            assert api.count("bind") == 1
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


@pytest.mark.parametrize("code", [403, 409, 429, 500, 504])
def test_a_bind_that_is_refused_is_decided_again(code: int) -> None:
    refusals = iter([refused(code, "No")] * 3)

    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: next(refusals, Fate()) if verb == "bind" else Fate())
        two_nodes(api)
        gang_of_two(api)
        process = make(api)
        async with running(process):
            await until(lambda: len(api.binds) == 2)
            await asyncio.sleep(5.0)
            assert_ledger_is_what_is_there(process, api)
        assert bound_keys(api) == ["ns/g-0", "ns/g-1"]
        assert events(api, "FailedBinding")

    with_virtual_time(story())


# -- objects that break the rules ------------------------------------------------------------------------------------


def test_an_invalid_object_is_ignored_reported_and_accepted_when_corrected() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        api.put(queue("q", weight=-5))
        api.put(group("ns/g", queue="q"))
        api.put(pod("ns/p", cpu=1, group="g"))
        process = make(api)
        async with running(process):
            await asyncio.sleep(10.0)
            assert api.binds == []
            [why] = events(api, "Refused")
            assert "weight" in why
            api.put(queue("q", weight=5))
            await until(lambda: api.binds)
            await asyncio.sleep(5.0)
            assert len(events(api, "Refused")) == 1
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def waits_because(api: FakeApi, pod_key: str) -> str:
    found = api.stored(Pod, pod_key)
    return next((c.message for c in found.status.conditions if c.type == "PodScheduled"), "") if found else ""


def test_a_pod_with_absurd_requests_says_so() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        api.put(group("ns/g"))
        api.put(pod("ns/absurd", cpu="1e30", group="g"))
        process = make(api)
        async with running(process):
            await until(lambda: waits_because(api, "ns/absurd"))
            assert waits_because(api, "ns/absurd") == (
                "The pod is ignored, because a request of it cannot be counted: "
                'it must be less than 2**63 millicores, not "1e30". Create it again with less.'
            )
            [why] = events(api, "FailedScheduling")
            assert why.startswith("InvalidObject: ")
            await asyncio.sleep(30.0)
            assert len(api.patches) == 1

    with_virtual_time(story())


def test_a_pod_whose_group_or_queue_is_refused_says_why() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        refused_group = group("ns/g")
        refused_group.spec.min_member = -1
        api.put(refused_group)
        api.put(pod("ns/grouped", cpu=1, group="g"))
        api.put(queue("q", weight=-5))
        api.put(group("ns/h", queue="q"))
        api.put(pod("ns/queued", cpu=1, group="h"))
        process = make(api)
        async with running(process):
            await until(lambda: waits_because(api, "ns/grouped") and waits_because(api, "ns/queued"))
            assert waits_because(api, "ns/grouped").startswith(
                "PodGroup ns/g is ignored, because it is invalid: spec.minMember: must be 0 or more, not -1"
            )
            assert waits_because(api, "ns/queued").startswith("Queue q is ignored, because it is invalid: spec.weight")
            before = len(api.patches)
            await asyncio.sleep(60.0)
            assert len(api.patches) == before, "it is said again and again"
            api.remove(PodGroup, "ns/g")
            await until(lambda: "does not exist" in waits_because(api, "ns/grouped"))

    with_virtual_time(story())


def test_a_pod_with_a_wrong_queue_annotation_says_so() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        api.put(pod("ns/p", cpu=1, annotations={names.QUEUE_NAME: "Bad_Name"}))
        process = make(api)
        async with running(process):
            await until(lambda: waits_because(api, "ns/p"))
            assert waits_because(api, "ns/p") == (
                '"Bad_Name" in the annotation scheduling.volcano.sh/queue-name cannot be the name of a queue; '
                "correct it."
            )

    with_virtual_time(story())


# -- leading ---------------------------------------------------------------------------------------------------------


def test_a_standby_knows_everything_and_does_nothing() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        lease = Lease(is_leader=False)
        process = make(api, lease)
        async with running(process):
            gang_of_two(api)
            await asyncio.sleep(10.0)
            assert process.not_ready_reason() is None
            assert process.cycles == 0
            assert len(process.cluster.tasks) == 2
            assert not [verb for verb, _ in api.asked if verb not in ("get", "list", "watch")]
            lease.is_leader = True
            await until(lambda: len(api.binds) == 2)

    with_virtual_time(story())


def test_a_standby_knows_the_placement_after_a_reservation_is_deleted() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        waiting, g = pod("ns/a", cpu=3, group="g"), group("ns/g")
        waiting.metadata.uid = "u1"
        api.put(g)
        api.put(waiting)
        api.put(waiting_reservation(waiting, g, "n1"))
        process = make(api, Lease(is_leader=False))
        async with running(process):
            await asyncio.sleep(5.0)
            assert status(process, "ns/a") is Status.RESERVED
            await api.bind("ns/a", "u1", "n1")
            await asyncio.sleep(5.0)
            api.remove(Reservation, "waiting-u1")
            await asyncio.sleep(5.0)
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def test_a_lease_lost_during_a_batch_stops_it_and_the_ledger_is_right_afterwards() -> None:
    """60 binds of one second at 32 at a time: the lease is lost while the first are on their way."""

    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: Fate(acts=1.0) if verb == "bind" else Fate())
        api.put(node("n1", cpu=100))
        api.put(group("ns/g", min_member=60))
        for number in range(60):
            api.put(pod(f"ns/p{number}", cpu=1, group="g"))
        lease = Lease()
        process = make(api, lease)
        async with running(process):
            await until(lambda: api.count("bind") == 32)
            lease.is_leader = False
            await asyncio.sleep(20.0)
            assert len(api.binds) == 32
            assert_ledger_is_what_is_there(process, api)
            lease.is_leader = True
            await until(lambda: len(api.binds) == 60)
            await asyncio.sleep(5.0)
            assert len(set(bound_keys(api))) == 60
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def test_statuses_of_a_lost_lease_are_not_written() -> None:
    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=1))
        lease = Lease()
        process = make(api, lease)
        async with running(process):
            await until(lambda: process.cycles >= 2)
            await asyncio.sleep(5.0)
            gang_of_two(api)
            cycles = process.cycles
            await until(lambda: process.cycles > cycles)  # it decides to write that there is no room
            lease.is_leader = False
            await asyncio.sleep(10.0)
            assert [one for one in api.patches if one[0] in ("pods", "podgroups")] == []
            lease.is_leader = True
            await until(lambda: api.stored(Pod, "ns/g-0").status.conditions)  # type: ignore[union-attr]

    with_virtual_time(story())


def test_the_default_queue_is_created_also_after_an_outage() -> None:
    lost = iter([Fate(acts=None, says=lost_after().says)] * 3)

    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: next(lost, Fate()) if (verb, key) == ("create", "default") else Fate())
        process = make(api)
        async with running(process):
            await until(lambda: api.stored(Queue, "default"))
            await asyncio.sleep(10.0)
            assert api.count("create", "default") == 4
            assert names.DEFAULT_QUEUE in process.cluster.queues

    with_virtual_time(story())


def test_who_leads_again_looks_again_whether_there_is_a_default_queue() -> None:
    async def story() -> None:
        api, lease = FakeApi(), Lease()
        process = make(api, lease)
        async with running(process):
            await until(lambda: api.stored(Queue, "default"))
            lease.is_leader = False
            await asyncio.sleep(5.0)
            api.remove(Queue, "default")
            await asyncio.sleep(5.0)
            assert api.stored(Queue, "default") is None
            lease.is_leader = True
            await until(lambda: api.stored(Queue, "default"))

    with_virtual_time(story())


def test_scheduling_works_without_permission_to_create_the_default_queue() -> None:
    def forbidden(verb: str, key: str) -> Fate:
        return refused(403, "Forbidden") if (verb, key) == ("create", "default") else Fate()

    async def story() -> None:
        api = FakeApi(fate=forbidden)
        api.put(node("n1", cpu=4))
        api.put(queue("q"))
        api.put(group("ns/g", queue="q"))
        api.put(pod("ns/p", cpu=1, group="g"))
        async with running(make(api)):
            await until(lambda: api.binds)
            await asyncio.sleep(10.0)
            assert api.count("create", "default") == 1

    with_virtual_time(story())


# -- cycles that fail ------------------------------------------------------------------------------------------------


class Mishap(Exception):
    pass


def test_a_failed_cycle_leaves_no_trace_and_loses_no_bind(caplog: pytest.LogCaptureFixture) -> None:
    """The binds are taken by the server, the watch is ten seconds late, and a cycle fails in between. A scheduler that
    started afresh from what it has seen would take the room for free and give it to the second gang."""

    async def story() -> None:
        api = FakeApi(lag=3.0)
        two_nodes(api)
        gang_of_two(api)
        process = make(api)
        async with running(process):
            await until(lambda: len(api.binds) == 2)
            before = process.cluster

            def fail() -> None:
                process.before_cycle = lambda: None
                raise Mishap

            process.before_cycle = fail
            gang_of_two(api, "second")
            await until(lambda: process.cluster is not before)
            await asyncio.sleep(20.0)
            assert process.unhealthy_reason() is None
            assert bound_keys(api) == ["ns/g-0", "ns/g-1"]
            assert api.count("bind") == 2
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())
    assert [record for record in caplog.records if "a cycle failed" in record.message]


def test_after_a_failed_cycle_binds_in_flight_are_waited_for() -> None:
    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: Fate(acts=3.0) if verb == "bind" else Fate())
        two_nodes(api)
        gang_of_two(api)
        process = make(api)
        async with running(process):
            await until(lambda: api.count("bind") == 2)
            before = process.cluster

            def fail() -> None:
                process.before_cycle = lambda: None
                raise Mishap

            process.before_cycle = fail
            await until(lambda: process.before_cycle is not fail)
            await asyncio.sleep(1.0)
            assert process.cluster is before
            await asyncio.sleep(10.0)
            assert process.cluster is not before
            assert api.count("bind") == 2
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


def test_a_scheduler_with_failing_cycles_is_unhealthy_and_recovers() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        gang_of_two(api)
        process = make(api)
        async with running(process):
            await until(lambda: len(api.binds) == 2)
            failing = True

            def cycle(*arguments: Any) -> Any:
                if failing:
                    raise Mishap
                return timed_cycle(*arguments)

            timed_cycle = process._metrics.timed_cycle
            process._metrics.timed_cycle = cycle  # type: ignore[method-assign]
            await until(lambda: process.unhealthy_reason() is not None)
            failing = False
            await until(lambda: process.unhealthy_reason() is None)
            assert_ledger_is_what_is_there(process, api)

    with_virtual_time(story())


# -- starting --------------------------------------------------------------------------------------------------------


def said(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


def test_an_unreachable_server_is_retried_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        api = FakeApi(down=True)
        two_nodes(api)
        gang_of_two(api)
        process = make(api)
        async with running(process):
            await asyncio.sleep(60.0)
            assert process.not_ready_reason() == "it has not reached the API server yet"
            assert said(caplog, "the API server does not answer yet") > 10
            api.down = False
            await until(lambda: len(api.binds) == 2)

    with_virtual_time(story())


def test_missing_definitions_are_reported_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        api = FakeApi(undefined={"queues", "podgroups"})
        two_nodes(api)
        process = make(api)
        async with running(process):
            await until(lambda: said(caplog, "kubectl apply -k deploy/crds"))
            [record] = [one for one in caplog.records if "kubectl apply -k deploy/crds" in one.getMessage()]
            assert record.levelno == logging.ERROR
            missing = "queues.scheduling.volcano.sh, podgroups.scheduling.volcano.sh"
            assert record.fields == {"missing": missing}  # type: ignore[attr-defined]
            reason = process.not_ready_reason()
            assert reason is not None
            assert "kubectl apply -k deploy/crds" in reason
            await asyncio.sleep(60.0)
            assert 3 <= said(caplog, "kubectl apply -k deploy/crds") <= 8  # again and again, but not all the time
            api.undefined.clear()
            gang_of_two(api)
            await until(lambda: len(api.binds) == 2)
            assert process.not_ready_reason() is None

    with_virtual_time(story())


# -- stopping --------------------------------------------------------------------------------------------------------


async def stopped(process: Process, stop: asyncio.Event, *, within: float) -> None:
    """Asks it to stop, and waits until it has: nothing of it is left."""
    began = asyncio.get_running_loop().time()
    stop.set()
    ours = asyncio.current_task()
    # It may have stopped already, if something else asked it to.
    running = {one for one in asyncio.all_tasks() if one.get_coro().__qualname__ == "SchedulerComponent.run"}  # type: ignore[union-attr]
    async with asyncio.timeout(60):
        await asyncio.gather(*running)
    assert asyncio.get_running_loop().time() - began <= within
    left = {one for one in asyncio.all_tasks() if one is not ours and "FakeApi" not in str(one)}
    assert not {one for one in left if "_after" not in str(one)}


def test_it_can_be_stopped_before_the_server_ever_answered() -> None:
    async def story() -> None:
        api = FakeApi(down=True)
        process = make(api)
        async with running(process) as stop:
            await asyncio.sleep(5.0)
            await stopped(process, stop, within=1.0)

    with_virtual_time(story())


def test_it_can_be_stopped_while_the_first_answer_is_awaited() -> None:
    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: Fate(acts=1e9))
        process = make(api)
        async with running(process) as stop:
            await asyncio.sleep(5.0)
            await stopped(process, stop, within=1.0)

    with_virtual_time(story())


def test_it_can_be_stopped_while_lists_are_awaited() -> None:
    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: Fate(acts=1e9) if (verb, key) == ("list", "pods") else Fate())
        process = make(api)
        async with running(process) as stop:
            await asyncio.sleep(5.0)
            await stopped(process, stop, within=1.0)

    with_virtual_time(story())


def test_stopped_in_a_cycle_it_dispatches_the_decisions() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        gang_of_two(api)
        process = make(api)
        async with running(process) as stop:
            process.after_cycle = stop.set
            await until(lambda: process.cycles >= 1)
            await stopped(process, stop, within=5.0)
        assert bound_keys(api) == ["ns/g-0", "ns/g-1"]
        assert events(api, "Scheduled") == ["Bound to n1.", "Bound to n2."]

    with_virtual_time(story())


def test_stopped_in_the_middle_of_binds_it_finishes_all_of_them() -> None:
    async def story() -> None:
        api = FakeApi(fate=lambda verb, key: Fate(acts=1.0) if verb == "bind" else Fate())
        api.put(node("n1", cpu=100))
        api.put(group("ns/g", min_member=60))
        for number in range(60):
            api.put(pod(f"ns/p{number}", cpu=1, group="g"))
        process = make(api)
        async with running(process) as stop:
            await until(lambda: api.count("bind") == 32)
            await stopped(process, stop, within=10.0)
        assert len(api.binds) == 60

    with_virtual_time(story())


def cutting(api: FakeApi) -> Callable[[str, str], Fate]:
    """The server takes the next bind and is down from then on."""

    def fate(verb: str, key: str) -> Fate:
        if verb == "bind":
            api.go_down()
            return lost_after()
        return Fate()

    return fate


def test_stopped_while_the_server_is_down_it_ends_in_time() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)
        async with running(process) as stop:
            await until(lambda: process.cycles >= 1)
            api.fate = cutting(api)
            gang_of_two(api)
            await until(lambda: api.down)
            await asyncio.sleep(3.0)
            await stopped(process, stop, within=10.5)

    with_virtual_time(story())


def test_stopped_while_it_rebuilds_without_a_server_it_ends_in_time() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)

        def fail() -> None:
            process.before_cycle = lambda: None
            raise Mishap

        async with running(process) as stop:
            await until(lambda: process.cycles >= 1)
            api.fate = cutting(api)
            gang_of_two(api)
            await until(lambda: api.down)
            before, process.before_cycle = process.cluster, fail
            await asyncio.sleep(10.0)
            assert process.cluster is before  # it waits to hear of its binds
            await stopped(process, stop, within=10.5)

    with_virtual_time(story())


def test_a_failure_in_the_background_ends_the_process_and_says_why() -> None:
    async def story() -> None:
        api = FakeApi()
        process = make(api)

        async def broken() -> None:
            await asyncio.sleep(5.0)
            raise Mishap

        process._recorder.run = broken  # type: ignore[method-assign]
        with pytest.raises(Mishap):
            await process.run(asyncio.Event())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with_virtual_time(story())


def test_cancelled_it_leaves_nothing_behind() -> None:
    async def story() -> None:
        api = FakeApi()
        two_nodes(api)
        process = make(api)
        task = asyncio.create_task(process.run(asyncio.Event()))
        await until(lambda: process.cycles >= 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await api.settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with_virtual_time(story())
