"""A kubelet whose containers are processes of this machine.

It follows pods, services and claims. Each pod has a task (`PodRun`) with a folder of its own:

    <folder>/pods/<uid>/started     it has been started once
                       /hosts       its /etc/hosts, kept up to date
                       /volumes     see `volumes`
                       /root        where sandboxes build their view of the files
    <folder>/claims                 the folders of claims, until the claims are deleted
    <folder>/logs                   see `logs`
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stromboli import plain_json
from stromboli.api import PersistentVolumeClaim, Pod, key
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    Backoff,
    Client,
    Failure,
    Reflector,
    is_not_found,
)
from stromboli.kube.runtime import Log
from stromboli.sandbox.file_view import Mount

from .addresses import Addresses
from .container import command_of, limits_of, memory_limit, refuse_what_is_not_here
from .environment import NotYet, Place, environment_of, host_name
from .logs import begin_log, note
from .memory_groups import MemoryGroup, MemoryGroups
from .names import SERVICES, Names, Service, endpoints, names_of
from .pod_objects import read_objects
from .pod_run import PodRun
from .restarts import FIRST_PAUSE
from .sandbox_process import CannotRun, Spec, why_not_isolated
from .service_forwarder import ServiceForwarder
from .volumes import PodVolumes

_FINISHED: Final = ("Succeeded", "Failed")
_SETTLE_SECONDS: Final = 0.1
_REFRESH_SECONDS: Final = 20.0
_UPDATED_VOLUMES: Final = ("configMap", "secret", "projected", "downwardAPI")

_log = Log("runner")


@dataclass(slots=True)
class _Task:
    pod: Pod
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class ProcessRunner:
    """Runs the pods that are bound to these nodes, until cancelled."""

    def __init__(
        self,
        client: Client,
        nodes: Container[str],
        folder: Path,
        *,
        host_paths_allowed: bool = False,
        first_pause: float = FIRST_PAUSE,
        groups: MemoryGroups | None = None,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._folder = folder
        self._host_paths_allowed = host_paths_allowed
        self._first_pause = first_pause
        self._groups = groups or MemoryGroups()
        self._pods = Reflector(client, PODS, self._on_pod, field_selector="spec.nodeName!=")
        self._services = Reflector(client, SERVICES, self._on_service)
        self._claims = Reflector(client, PERSISTENT_VOLUME_CLAIMS, self._on_claim)
        self._capacities = Reflector(client, NODES, lambda event: None)
        self._tasks: dict[str, _Task] = {}  # by uid
        self._ended: set[str] = set()  # uids that a task of ours has ended
        self._addresses = Addresses()
        self._forwarder = ServiceForwarder(self._addresses, self._endpoints)
        self._names = Names()
        self._names_changed = asyncio.Event()
        self._hosts: dict[str, Mapping[str, Any]] = {}  # pods that have a hosts file, by uid
        self._not_isolated = ""
        # Sandboxes that start together would keep the processor from everybody else on this machine.
        self._turns = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        self._first_core = 0  # of the next program whose number of cores is limited

    async def run(self) -> None:
        self._not_isolated = await why_not_isolated()
        if self._not_isolated:
            _log.warning(
                "programs run without volumes and names, because there can be no sandboxes", reason=self._not_isolated
            )
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in (self._services, self._claims, self._capacities):
                    group.create_task(reflector.run())
                for reflector in (self._services, self._claims, self._capacities):
                    await reflector.synced.wait()
                self._remove_old_claims()
                group.create_task(self._keep_names())
                left = self._known_folders()
                group.create_task(self._pods.run())
                await self._pods.synced.wait()
                left -= {pod.metadata.uid for pod in self._pods.objects.values()}
                await asyncio.to_thread(self._remove_all_folders, left)
        finally:
            tasks = [one.task for one in self._tasks.values() if one.task is not None]
            for task in tasks:
                if not task.cancelling():  # twice would interrupt the end of its sandboxes
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._forwarder.close()
            self._groups.close()

    def unfinished(self) -> int:
        pods = self._pods.objects.values()
        return sum(pod.spec.node_name in self._nodes and pod.status.phase not in _FINISHED for pod in pods)

    # -- events -------------------------------------------------------------------------------------------------------

    def _on_pod(self, event: Applied | Deleted) -> None:
        pod = event.object
        assert isinstance(pod, Pod)
        if pod.spec.node_name not in self._nodes:
            return
        uid = pod.metadata.uid
        self._names_changed.set()
        known = self._tasks.get(uid)
        if known is None:
            if uid in self._ended or isinstance(event, Deleted):
                return
            known = self._tasks[uid] = _Task(pod)
            known.task = asyncio.create_task(self._run_pod(known))
        known.pod = pod
        if isinstance(event, Deleted):
            assert known.task is not None
            known.task.cancel()  # by force: nobody waits for its programs
        elif pod.metadata.deletion_timestamp is not None:
            known.deleted.set()

    def _on_service(self, event: Applied | Deleted) -> None:
        self._names_changed.set()

    def _on_claim(self, event: Applied | Deleted) -> None:
        if isinstance(event, Deleted):
            assert isinstance(event.object, PersistentVolumeClaim)
            remove = functools.partial(shutil.rmtree, self._claim_folder(event.object), ignore_errors=True)
            asyncio.get_running_loop().run_in_executor(None, remove)  # it may be large

    # -- one pod ------------------------------------------------------------------------------------------------------

    async def _run_pod(self, known: _Task) -> None:
        uid, name = known.pod.metadata.uid, key(known.pod)
        try:
            if known.pod.status.phase not in _FINISHED:
                await self._run_containers(known, name, uid)
            self._hosts.pop(uid, None)
            await known.deleted.wait()
            with contextlib.suppress(Failure):
                await self._client.delete(PODS, name, uid=uid, grace_seconds=0)
            await asyncio.to_thread(self._remove_folders, uid)
        except asyncio.CancelledError:
            self._hosts.pop(uid, None)
            if not self._is_known(uid):
                await asyncio.to_thread(self._remove_folders, uid)
            raise
        except Failure as error:
            if not is_not_found(error):
                _log.warning("cannot run a pod", pod=name, error=str(error))
        finally:
            self._ended.add(uid)
            self._tasks.pop(uid, None)
            self._hosts.pop(uid, None)

    def _is_known(self, uid: str) -> bool:
        return any(pod.metadata.uid == uid for pod in self._pods.objects.values())

    async def _run_containers(self, known: _Task, name: str, uid: str) -> None:
        pod = plain_json.decode_shallow(await self._client.request("GET", PODS.path_of(name)))
        if pod["metadata"]["uid"] != uid:
            return
        started = self._pod_folder(uid) / "started"
        was_started = started.exists() or known.pod.status.phase == "Running"
        if known.deleted.is_set() and not was_started:
            return
        started.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        started.touch()
        volumes = PodVolumes(
            pod, self._pod_folder(uid), _Claims(self, known.pod), host_paths_allowed=self._host_paths_allowed
        )

        async def prepare(container: Mapping[str, Any], run: int) -> tuple[Spec, MemoryGroup | None]:
            return await self._prepare(pod, volumes, container, run)

        async def write(status: dict[str, Any]) -> None:
            await self._write(name, uid, status)

        def grace() -> float:
            seconds = known.pod.metadata.deletion_grace_period_seconds
            return 30.0 if seconds is None else float(seconds)

        run = PodRun(pod, self._addresses.of(uid), prepare, write, self._turns, first_pause=self._first_pause)
        updating = asyncio.create_task(self._update_volumes(pod, volumes))
        try:
            await run.run(known.deleted, grace, was_started=was_started)
        finally:
            updating.cancel()

    async def _prepare(
        self, pod: Mapping[str, Any], volumes: PodVolumes, container: Mapping[str, Any], run: int
    ) -> tuple[Spec, MemoryGroup | None]:
        uid = pod["metadata"]["uid"]
        log = begin_log(self._folder / "logs", uid, container["name"], run)
        try:
            refuse_what_is_not_here(pod)
            source = await read_objects(self._client, pod)
            place = self._place(pod)
            environment = environment_of(pod, container, source, place)
            volumes.prepare(source, place)
            mounts = volumes.mounts(container, environment)
            if mounts and self._not_isolated:
                raise CannotRun(f"it mounts volumes, and there can be no sandboxes here: {self._not_isolated}")
            command = command_of(container, environment)
            memory = memory_limit(container)
            group = self._groups.make(f"{uid}-{container['name']}-{run}", memory) if memory else None
            members = str(group.members) if group else ""
            address_space = 0 if group else memory
            limits = limits_of(pod, container, address_space=address_space, group=members, first_core=self._first_core)
            self._first_core += limits.cores
        except Failure as failure:
            raise NotYet(f"the API server does not answer: {failure.message}") from None
        except CannotRun as problem:
            note(log, str(problem))
            raise
        if not self._not_isolated:
            mounts.append(Mount(str(self._write_hosts(pod)), "/etc/hosts"))
        staging = self._pod_folder(uid) / "root"
        staging.mkdir(exist_ok=True)
        spec = Spec(
            command, environment, log, container.get("workingDir") or "", limits, not self._not_isolated, staging,
            mounts, host_name(pod),
        )  # fmt: skip
        return spec, group

    def _place(self, pod: Mapping[str, Any]) -> Place:
        node = self._capacities.objects.get(pod["spec"].get("nodeName", ""))
        namespace = pod["metadata"].get("namespace", "default")
        return Place(
            self._addresses.of(pod["metadata"]["uid"]),
            dict(node.status.allocatable) if node else {},
            self._names.variables.get(namespace, {}),
        )

    async def _update_volumes(self, pod: Mapping[str, Any], volumes: PodVolumes) -> None:
        """Kubelets also bring changes of ConfigMaps and Secrets to pods that run, within a minute or so."""
        written = pod["spec"].get("volumes") or ()
        if not any(volume.get(kind) for volume in written for kind in _UPDATED_VOLUMES):
            return
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            with contextlib.suppress(CannotRun, NotYet, Failure, OSError):
                volumes.prepare(await read_objects(self._client, pod), self._place(pod))

    async def _write(self, name: str, uid: str, status: dict[str, Any]) -> None:
        backoff = Backoff()
        while True:
            try:
                patch = {"metadata": {"uid": uid}, "status": status}
                self._pods.observe_write(
                    await self._client.patch(PODS, name, patch, subresource="status", strategic=True)
                )
                return
            except Failure as failure:
                if 0 < failure.status < 500:
                    raise
            await asyncio.sleep(backoff.next())

    # -- folders ------------------------------------------------------------------------------------------------------

    def _pod_folder(self, uid: str) -> Path:
        return self._folder / "pods" / uid

    def _remove_folders(self, uid: str) -> None:
        for folder in (self._pod_folder(uid), self._folder / "logs" / uid):
            shutil.rmtree(folder, ignore_errors=True)

    def _known_folders(self) -> set[str]:
        """The uids of pods that have folders."""
        found: set[str] = set()
        for folder in (self._folder / "pods", self._folder / "logs"):
            with contextlib.suppress(FileNotFoundError):
                found.update(os.listdir(folder))
        return found

    def _remove_all_folders(self, uids: Collection[str]) -> None:
        """Of pods that were deleted while we did not run."""
        for uid in uids:
            self._remove_folders(uid)

    def _claim_folder(self, claim: PersistentVolumeClaim) -> Path:
        metadata = claim.metadata
        return self._folder / "claims" / f"{metadata.namespace}.{metadata.name}.{metadata.uid}"

    def _remove_old_claims(self) -> None:
        """Of claims that were deleted while we did not run."""
        kept = {self._claim_folder(claim) for claim in self._claims.objects.values()}
        with contextlib.suppress(FileNotFoundError):
            for folder in sorted((self._folder / "claims").iterdir()):
                if folder not in kept:
                    shutil.rmtree(folder, ignore_errors=True)

    def claim(self, namespace: str, name: str) -> Path | None:
        """The folder of a claim; None if it is not bound."""
        claim = self._claims.objects.get(f"{namespace}/{name}")
        if claim is None or claim.status.phase != "Bound":
            return None
        folder = self._claim_folder(claim)
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir()
            folder.chmod(0o777)  # its pods may run as other users
        return folder

    # -- names --------------------------------------------------------------------------------------------------------

    def _named_pods(self) -> Iterator[tuple[Pod, str]]:
        for pod in self._pods.objects.values():
            if pod.spec.node_name in self._nodes and pod.status.phase not in _FINISHED:
                yield pod, self._addresses.of(pod.metadata.uid)

    def _endpoints(self, service: Service) -> list[tuple[Pod, str]]:
        beside = [one for one in self._named_pods() if one[0].metadata.namespace == service.metadata.namespace]
        return sorted(endpoints(service, beside), key=lambda one: one[0].metadata.name)

    async def _keep_names(self) -> None:
        while True:
            await self._names_changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._names_changed.clear()
            services = [self._services.objects[name] for name in sorted(self._services.objects)]
            await self._forwarder.follow(services)
            uids = {pod.metadata.uid for pod, _ in self._named_pods()} | {one.metadata.uid for one in services}
            self._addresses.keep(uids | self._tasks.keys())
            self._names = names_of(self._named_pods(), services, self._forwarder.addresses())
            for uid in list(self._hosts):
                pod = self._hosts.get(uid)
                try:
                    if pod is not None:
                        self._write_hosts(pod)
                except OSError as error:  # the disk is full, for example; the pods run on
                    _log.warning("cannot write the names for a pod", pod=uid, error=error.strerror or str(error))
                await asyncio.sleep(0)

    def _write_hosts(self, pod: Mapping[str, Any]) -> Path:
        """In place: sandboxes have mounted this very file."""
        uid = pod["metadata"]["uid"]
        self._hosts[uid] = pod
        path = self._pod_folder(uid) / "hosts"
        content = self._names.hosts(pod, self._addresses.of(uid), host_name(pod)).encode()
        if not path.exists() or path.read_bytes() != content:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(file, content, 0)
                os.ftruncate(file, len(content))
            finally:
                os.close(file)
        return path


class _Claims(Mapping[str, Path]):
    """The folders of the bound claims in the namespace of a pod, as they are when they are asked for."""

    def __init__(self, runner: ProcessRunner, pod: Pod) -> None:
        self._runner = runner
        self._namespace = pod.metadata.namespace

    def __getitem__(self, name: str) -> Path:
        folder = self._runner.claim(self._namespace, name)
        if folder is None:
            raise KeyError(name)
        return folder

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
