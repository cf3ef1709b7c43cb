"""Leader election on a real API server, also during outages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kube.client import Client as Admin
from kube.conftest import Kubectl
from kube.server import ApiServer
from stromboli.kube.client import Client, from_kubeconfig
from stromboli.kube.runtime import LeaderElector

PATIENCE = 60.0


class Contest:
    """Contenders for one lease, each with a client of its own, and somebody who looks that they never both lead."""

    def __init__(self, kubeconfig: Path, namespace: str, stack: AsyncExitStack) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._stack = stack
        self._contenders: list[LeaderElector] = []

    async def join(self, identity: str) -> tuple[LeaderElector, asyncio.Task[None]]:
        client = await self._stack.enter_async_context(Client(from_kubeconfig(self._kubeconfig)))
        leadership = LeaderElector(
            client, name="contest", namespace=self._namespace, identity=identity,
            duration=3.0, renew_within=2.0, every=0.4,
        )  # fmt: skip
        task = asyncio.create_task(leadership.run())
        self._stack.push_async_callback(_ended, task)
        self._contenders.append(leadership)
        return leadership, task

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)
                assert sum(contender.is_leader for contender in self._contenders) <= 1


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
def contest(kubeconfig: Path, namespace: str) -> Callable[[Callable[[Contest], Awaitable[None]]], None]:
    def hold(story: Callable[[Contest], Awaitable[None]]) -> None:
        async def play() -> None:
            async with AsyncExitStack() as stack:
                await story(Contest(kubeconfig, namespace, stack))

        asyncio.run(play())

    return hold


def lease(admin: Admin, namespace: str) -> Any:
    return admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/contest")


def test_the_lease_is_one_that_people_can_read(contest: Any, admin: Admin, kubectl: Kubectl, namespace: str) -> None:
    async def story(contest: Contest) -> None:
        leader, _ = await contest.join("a")
        await contest.until(lambda: leader.is_leader)
        first = lease(admin, namespace)["spec"]
        assert first["holderIdentity"] == "a"
        assert first["leaseDurationSeconds"] == 3
        await contest.until(lambda: lease(admin, namespace)["spec"]["renewTime"] > first["renewTime"])
        assert lease(admin, namespace)["spec"]["acquireTime"] == first["acquireTime"]

    contest(story)
    assert kubectl("get", "lease", "contest", "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}") == "a"


def test_renewals_leave_alone_what_others_write_on_the_lease(contest: Any, admin: Admin, namespace: str) -> None:
    async def story(contest: Contest) -> None:
        leader, _ = await contest.join("a")
        await contest.until(lambda: leader.is_leader)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/contest"
        before = admin.patch(path, {"metadata": {"labels": {"team": "ops"}}})["spec"]["renewTime"]
        await contest.until(lambda: lease(admin, namespace)["spec"]["renewTime"] > before)
        assert lease(admin, namespace)["metadata"]["labels"] == {"team": "ops"}

    contest(story)


def test_a_standby_takes_over_from_a_leader_that_is_gone(contest: Any, admin: Admin, namespace: str) -> None:
    async def story(contest: Contest) -> None:
        first, running = await contest.join("a")
        await contest.until(lambda: first.is_leader)
        second, _ = await contest.join("b")
        await _ended(running)
        await contest.until(lambda: second.is_leader)
        spec = lease(admin, namespace)["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)

    contest(story)


def test_a_released_lease_has_no_holder_and_goes_to_the_next(contest: Any, admin: Admin, namespace: str) -> None:
    async def story(contest: Contest) -> None:
        first, _ = await contest.join("a")
        await contest.until(lambda: first.is_leader)
        await first.release()
        assert not first.is_leader
        spec = lease(admin, namespace)["spec"]
        assert not spec.get("holderIdentity")
        assert spec["leaseDurationSeconds"] == 1
        second, _ = await contest.join("b")
        await contest.until(lambda: second.is_leader)

    contest(story)


def test_a_server_that_does_not_answer_makes_no_leader_and_ends_none_for_good(
    contest: Any, api_server: ApiServer
) -> None:
    async def story(contest: Contest) -> None:
        first, _ = await contest.join("a")
        await contest.until(lambda: first.is_leader)
        second, _ = await contest.join("b")
        api_server.pause()
        try:
            await contest.until(lambda: not first.is_leader)
            assert not second.is_leader
        finally:
            api_server.resume()
        await contest.until(lambda: first.is_leader or second.is_leader)

    contest(story)


def test_leaders_survive_a_crash_of_the_server(contest: Any, api_server: ApiServer) -> None:
    async def story(contest: Contest) -> None:
        first, _ = await contest.join("a")
        await contest.until(lambda: first.is_leader)
        second, _ = await contest.join("b")
        api_server.kill()
        await contest.until(lambda: not first.is_leader)
        await asyncio.to_thread(api_server.start)
        await contest.until(lambda: first.is_leader or second.is_leader)

    contest(story)


def test_of_many_that_start_together_one_leads(contest: Any, admin: Admin, namespace: str) -> None:
    async def story(contest: Contest) -> None:
        contenders = {identity: (await contest.join(identity))[0] for identity in "abcde"}
        await contest.until(lambda: any(leadership.is_leader for leadership in contenders.values()))
        await contest.until(lambda: contenders[lease(admin, namespace)["spec"]["holderIdentity"]].is_leader)

    contest(story)
