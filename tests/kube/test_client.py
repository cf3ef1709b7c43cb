"""The client and the reflector on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kube.client import Client as Admin
from kube.server import ApiServer
from stromboli.api import Pod
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import (
    LEASES,
    LEGACY_BUDGETS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Backoff,
    Client,
    Failure,
    Lease,
    LeaseSpec,
    Reflector,
    from_kubeconfig,
    is_already_exists,
    is_conflict,
    is_gone,
    is_not_found,
)


def pod(name: str, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "none"}]},
    }


def tell(kubeconfig: Path, story: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(180), Client(from_kubeconfig(kubeconfig), **options) as client:
            await story(client)

    asyncio.run(run())


async def failure_of(doing: Awaitable[object]) -> Failure:
    with pytest.raises(Failure) as caught:
        await doing
    return caught.value


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(90):
        while not condition():
            await asyncio.sleep(0.01)


def test_the_server_is_known_by_certificate_and_by_token(api_server: ApiServer, kubeconfig: Path) -> None:
    async def story(client: Client) -> None:
        assert await client.server_version() >= (1, 20)
        assert await client.serves("v1")
        assert await client.serves("apps/v1")
        assert not await client.serves("stromboli.io/v99")

    tell(kubeconfig, story)
    tell(api_server.kubeconfig_for("operator"), story)

    async def refused(client: Client) -> None:
        failure = await failure_of(client.list(PODS))
        assert (failure.status, failure.reason) == (403, "Forbidden")
        assert "visitor" in failure.message

    tell(api_server.kubeconfig_for("visitor"), refused)


def test_a_list_has_small_pages_of_one_resource_version(kubeconfig: Path, namespace: str) -> None:
    async def story(client: Client) -> None:
        await asyncio.gather(*(client.create(PODS, pod(f"p{number:03}"), namespace=namespace) for number in range(95)))
        listing = await client.list(PODS, namespace=namespace)
        assert [item.metadata.name for item in listing.items] == [f"p{number:03}" for number in range(95)]
        await client.delete(PODS, f"{namespace}/p000", grace_seconds=0)
        assert len((await client.list(PODS, namespace=namespace)).items) == 94
        one = await client.list(PODS, namespace=namespace, field_selector="metadata.name=p007")
        assert [item.metadata.name for item in one.items] == ["p007"]

    tell(kubeconfig, story, page=10)


def test_a_list_whose_version_is_compacted_restarts(api_server: ApiServer, kubeconfig: Path, namespace: str) -> None:
    async def story(client: Client) -> None:
        for number in range(6):
            await client.create(PODS, pod(f"p{number}"), namespace=namespace)
        pages = client.pages(PODS, namespace=namespace)
        assert len((await anext(pages)).items or []) == 2
        await client.create(PODS, pod("later"), namespace=namespace)
        await asyncio.to_thread(api_server.compact)
        # Older servers have lost that version. Recent ones keep it in memory and go on with the list as it was.
        try:
            items = (await anext(pages)).items or []
            found = [json.loads(bytes(item))["metadata"]["name"] for item in items]
        except Failure as failure:
            found = ["gone"] if is_gone(failure) else [failure.message]
        assert found in (["gone"], ["p2", "p3"])
        assert len((await client.list(PODS, namespace=namespace)).items) == 7

    tell(kubeconfig, story, page=2)


def test_objects_are_written_and_conflicts_are_reported(kubeconfig: Path, namespace: str) -> None:
    async def story(client: Client) -> None:
        lease = Lease(spec=LeaseSpec(holder_identity="me", lease_duration_seconds=15))
        lease.metadata.name, lease.metadata.namespace = "leader", namespace
        first = await client.create(LEASES, lease)
        assert is_already_exists(await failure_of(client.create(LEASES, lease)))
        first.spec.renew_time = "2030-01-01T00:00:00.000000Z"
        assert (await client.replace(LEASES, first)).spec.renew_time == first.spec.renew_time
        assert is_conflict(await failure_of(client.replace(LEASES, first)))
        key = f"{namespace}/leader"
        patched = await client.patch(LEASES, key, {"spec": {"holderIdentity": "you"}})
        assert (patched.spec.holder_identity, patched.spec.lease_duration_seconds) == ("you", 15)
        stale = {"metadata": {"resourceVersion": first.metadata.resource_version}, "spec": {"holderIdentity": "he"}}
        assert is_conflict(await failure_of(client.patch(LEASES, key, stale)))
        assert is_conflict(await failure_of(client.delete(LEASES, key, uid="another")))
        await client.delete(LEASES, key, uid=first.metadata.uid, propagation="Background")
        assert is_not_found(await failure_of(client.get(LEASES, key)))

    tell(kubeconfig, story)


def test_a_pod_is_bound_once(kubeconfig: Path, namespace: str) -> None:
    async def story(client: Client) -> None:
        made = await client.create(PODS, pod("a", annotations={"kept": "yes"}), namespace=namespace)
        key, uid = f"{namespace}/a", made.metadata.uid
        if await client.server_version() >= (1, 27):
            assert is_conflict(await failure_of(client.bind(key, "another", "n1")))
        await client.bind(key, uid, "n1", annotations={"why": "because"})
        bound = await client.get(PODS, key)
        assert bound.spec.node_name == "n1"
        assert bound.metadata.annotations == {"kept": "yes", "why": "because"}
        assert is_conflict(await failure_of(client.bind(key, uid, "n2")))
        assert is_not_found(await failure_of(client.bind(f"{namespace}/b", uid, "n2")))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
        patch = {"status": {"conditions": [condition]}}
        patched = await client.patch(PODS, key, patch, subresource="status", strategic=True)
        assert {one.type: one.status for one in patched.status.conditions}["PodScheduled"] == "False"

    tell(kubeconfig, story)


def test_pods_are_evicted_unless_a_budget_forbids_it(kubeconfig: Path, namespace: str) -> None:
    async def story(client: Client) -> None:
        uids = {}
        for name in ("free", "kept"):
            made = await client.create(PODS, pod(name, labels={"app": name}), namespace=namespace)
            uids[name] = made.metadata.uid
            # A pod that was never bound may go whatever a budget says; these run.
            await client.bind(f"{namespace}/{name}", uids[name], "n1")
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            await client.patch(PODS, f"{namespace}/{name}", ready, subresource="status", strategic=True)
        budgets = POD_DISRUPTION_BUDGETS if await client.serves("policy/v1") else LEGACY_BUDGETS
        budget = {
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        }
        budget |= {"apiVersion": budgets.group_version, "kind": "PodDisruptionBudget"}
        made_budget = await client.create(budgets, budget, namespace=namespace)

        async def allow(disruptions: int) -> None:
            """What the controller-manager would find out."""
            status = {
                "observedGeneration": made_budget.metadata.generation,
                "disruptionsAllowed": disruptions,
                "currentHealthy": 1,
                "desiredHealthy": 1 - disruptions,
                "expectedPods": 1,
            }
            await client.patch(budgets, f"{namespace}/keep", {"status": status}, subresource="status")

        assert is_conflict(await failure_of(client.evict(f"{namespace}/free", "another")))
        await client.evict(f"{namespace}/free", uids["free"], grace_seconds=0)
        assert is_not_found(await failure_of(client.get(PODS, f"{namespace}/free")))

        await allow(0)
        failure = await failure_of(client.evict(f"{namespace}/kept", uids["kept"]))
        assert (failure.status, failure.cause) == (429, "DisruptionBudget")
        await allow(1)
        await client.evict(f"{namespace}/kept", uids["kept"], grace_seconds=7)
        leaving = await client.get(PODS, f"{namespace}/kept")
        assert leaving.metadata.deletion_grace_period_seconds == 7

    tell(kubeconfig, story)


class Mirror:
    """What a receiver knows that believes all it is told, and complains about what it was told before."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.events = 0

    def __call__(self, happened: Applied | Deleted) -> None:
        assert isinstance(happened.object, Pod)
        self.events += 1
        name, known = happened.object.metadata.name, self.pods.get(happened.object.metadata.name)
        if isinstance(happened, Deleted):
            del self.pods[name]
            return
        assert known is None or known.metadata.resource_version != happened.object.metadata.resource_version
        self.pods[name] = happened.object


def follow(
    kubeconfig: Path, namespace: str, story: Callable[[Client, Reflector[Pod], Mirror], Awaitable[None]]
) -> None:
    async def run(client: Client) -> None:
        mirror = Mirror()
        reflector = Reflector(client, PODS, mirror, namespace=namespace, backoff=Backoff(0.05, 0.5))
        running = asyncio.create_task(reflector.run())
        try:
            await reflector.synced.wait()
            await story(client, reflector, mirror)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    tell(kubeconfig, run, page=3)


def of_server(admin: Admin, namespace: str) -> dict[str, tuple[str, str]]:
    return {
        one["metadata"]["name"]: (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
        for one in admin.list(f"/api/v1/namespaces/{namespace}/pods")
    }


async def agree(admin: Admin, namespace: str, reflector: Reflector[Pod], mirror: Mirror) -> None:
    """The server, the reflector and its receiver know the same."""
    there = await asyncio.to_thread(of_server, admin, namespace)

    def same() -> bool:
        known = {
            name: (one.metadata.uid, one.metadata.resource_version)
            for name, one in ((one.metadata.name, one) for one in reflector.objects.values())
        }
        return known == there

    await until(same)
    assert {f"{namespace}/{name}": one for name, one in mirror.pods.items()} == reflector.objects


def test_a_reflector_follows_and_takes_our_own_writes_at_once(admin: Admin, kubeconfig: Path, namespace: str) -> None:
    async def story(client: Client, reflector: Reflector[Pod], mirror: Mirror) -> None:
        for number in range(10):
            made = await client.create(PODS, pod(f"p{number}"), namespace=namespace)
            reflector.observe_write(made)
            assert f"{namespace}/p{number}" in reflector.objects
            changed = await client.patch(PODS, f"{namespace}/p{number}", {"metadata": {"labels": {"x": "y"}}})
            reflector.observe_write(changed)
            assert reflector.objects[f"{namespace}/p{number}"].metadata.labels == {"x": "y"}
        await client.create(PODS, pod("last"), namespace=namespace)
        await agree(admin, namespace, reflector, mirror)
        assert mirror.events == 21, "ten made, ten changed, one more made, and nothing told twice"
        await client.delete(PODS, f"{namespace}/p0", grace_seconds=0)
        await agree(admin, namespace, reflector, mirror)

    follow(kubeconfig, namespace, story)


@pytest.mark.parametrize("outage", ["stop", "kill", "forget"])
def test_a_reflector_loses_nothing_in_an_outage(
    outage: str, api_server: ApiServer, admin: Admin, kubeconfig: Path, namespace: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def meanwhile() -> None:
        """Everything that can happen to a pod, seen by the reflector or not."""
        getattr(api_server, outage)()
        api_server.start()
        admin.create(pods, pod("new"))
        admin.delete(f"{pods}/gone", gracePeriodSeconds=0)
        admin.delete(f"{pods}/again", gracePeriodSeconds=0)
        admin.create(pods, pod("again"))
        admin.patch(f"{pods}/changed", {"metadata": {"labels": {"x": "y"}}})

    async def story(client: Client, reflector: Reflector[Pod], mirror: Mirror) -> None:
        for name in ("same", "changed", "gone", "again"):
            await client.create(PODS, pod(name), namespace=namespace)
        await agree(admin, namespace, reflector, mirror)
        await asyncio.to_thread(meanwhile)
        await agree(admin, namespace, reflector, mirror)
        # And it is alive: what happens later arrives as well.
        await client.create(PODS, pod("later"), namespace=namespace)
        await agree(admin, namespace, reflector, mirror)

    follow(kubeconfig, namespace, story)


def test_a_reflector_relists_when_its_version_has_expired(
    api_server: ApiServer, kubeconfig: Path, namespace: str
) -> None:
    """A watch from a moment before a compaction is refused by the server, in one of two ways, and both are a 410."""

    async def story(client: Client) -> None:
        start = (await client.list(PODS, namespace=namespace)).resource_version
        await client.create(PODS, pod("a"), namespace=namespace)
        await asyncio.to_thread(api_server.forget)
        assert is_gone(await failure_of(anext(client.watch(PODS, start, namespace=namespace))))

    tell(kubeconfig, story)


def test_a_server_that_hangs_is_a_timeout(api_server: ApiServer, kubeconfig: Path) -> None:
    async def story(client: Client) -> None:
        await client.get(NAMESPACES, "default")
        api_server.pause()
        try:
            failure = await failure_of(client.create(NAMESPACES, {"metadata": {"name": "default"}}))
        finally:
            api_server.resume()
        assert (failure.status, failure.message) == (0, f"{api_server.url} did not answer in time")
        assert (await client.get(NAMESPACES, "default")).metadata.name == "default"

    tell(kubeconfig, story, timeout=5.0)
