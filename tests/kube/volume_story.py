"""Claims and volumes on a real API server, and a scheduler that is killed between choosing and binding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kube.client import Refused, eventually
from kube.cluster import Cluster, Program

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED = "volume.kubernetes.io/selected-node"

TIMEOUT = 90.0


class VolumeStory:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = cluster.admin
        self.claims_path = f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims"
        self._classes: list[str] = []
        self._volumes: list[str] = []

    def storage_class(self, name: str, *, provisioner: str = "csi.example.com", **annotations: str) -> str:
        name = f"{self.cluster.name}-{name}"
        notes = {f"sim.stromboli.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.admin.create(CLASSES, {
            "metadata": {"name": name, "annotations": notes}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        })  # fmt: skip
        self._classes.append(name)
        return name

    def claim(self, name: str, of: str) -> None:
        self.admin.create(self.claims_path, {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": of, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })  # fmt: skip

    def volume(self, name: str, of: str, node: str) -> str:
        """A volume that exists, on one node."""
        name = f"{self.cluster.name}-{name}"
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        self.admin.create(VOLUMES, {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": of, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "persistentVolumeReclaimPolicy": "Retain",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        })  # fmt: skip
        self._volumes.append(name)
        return name

    def pod(self, name: str, claim: str, **options: Any) -> None:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        self.cluster.pod(name, volumes=volumes, **options)

    def gang(self, name: str, members: int, of: str) -> list[str]:
        """Pods that start together, with a claim each."""
        self.cluster.group(name, members)
        names = [f"{name}-{index}" for index in range(members)]
        for member in names:
            self.claim(member, of)
            self.pod(member, member, group=name)
        return names

    # -- what is so -----------------------------------------------------------------------------------------------

    def claims(self) -> dict[str, Any]:
        return {claim["metadata"]["name"]: claim for claim in self.admin.list(self.claims_path)}

    def named_volumes(self) -> dict[str, list[str]]:
        """By the uid of each claim of this story, the volumes that name it."""
        own = {claim["metadata"]["uid"]: [] for claim in self.claims().values()}
        found: dict[str, list[str]] = {uid: [] for uid in own}
        for volume in self.admin.list(VOLUMES):
            uid = (volume["spec"].get("claimRef") or {}).get("uid", "")
            if uid in found:
                found[uid].append(volume["metadata"]["name"])
        return found

    def check(self) -> None:
        """Every claim of a bound pod is bound, and no claim has two volumes."""
        claims = self.claims()
        for uid, volumes in self.named_volumes().items():
            assert len(volumes) <= 1, f"claim {uid} has volumes {volumes}"
        for name in self.cluster.bound():
            claim = claims.get(name)
            if claim is not None:
                assert claim["status"]["phase"] == "Bound", f"pod {name} is bound and its claim is not"

    def is_selected(self, names: list[str]) -> bool:
        return any(SELECTED in (self.claims()[name]["metadata"].get("annotations") or {}) for name in names)

    def some_volume(self, names: list[str]) -> bool:
        uids = {self.claims()[name]["metadata"]["uid"] for name in names}
        return any(volumes for uid, volumes in self.named_volumes().items() if uid in uids)

    def some_claim_bound(self, names: list[str]) -> bool:
        return any(self.claims()[name]["status"].get("phase") == "Bound" for name in names)

    def some_pod_bound(self, names: list[str]) -> bool:
        return any(name in self.cluster.bound() for name in names)

    def remove(self) -> None:
        for name in self.cluster.pods():
            self.cluster.delete_pod(name, grace=0)
        for name in self.claims():
            _ignore_missing(lambda name=name: self.admin.delete(f"{self.claims_path}/{name}"))
            _ignore_missing(
                lambda name=name: self.admin.patch(f"{self.claims_path}/{name}", {"metadata": {"finalizers": None}})
            )
        own = [v["metadata"]["name"] for v in self.admin.list(VOLUMES)
               if (v["spec"].get("claimRef") or {}).get("namespace") == self.cluster.namespace]  # fmt: skip
        for name in {*own, *self._volumes}:
            _ignore_missing(lambda name=name: self.admin.delete(f"{VOLUMES}/{name}"))
            _ignore_missing(lambda name=name: self.admin.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}}))
        for name in self._classes:
            _ignore_missing(lambda name=name: self.admin.delete(f"{CLASSES}/{name}"))


def _ignore_missing(call: Callable[[], Any]) -> None:
    try:
        call()
    except Refused as refused:
        if refused.reason != "NotFound":
            raise


@contextmanager
def volume_story(cluster: Cluster) -> Iterator[VolumeStory]:
    story = VolumeStory(cluster)
    try:
        yield story
    finally:
        story.remove()


STEPS = ("is_selected", "some_volume", "some_claim_bound", "some_pod_bound", "at once")
"""After which a scheduler is killed."""


def kill_rounds(story: VolumeStory, rounds: int, *, members: int = 3) -> int:
    """A gang for each round, and a scheduler that is killed after one of the steps; then a new one goes on. Returns how
    many schedulers were killed. Raises AssertionError unless every gang is bound as a whole in the end."""
    cluster = story.cluster
    of = story.storage_class("killed", provision="0.3s")
    scheduler: Program = cluster.scheduler()
    killed = 0
    for number in range(rounds):
        names = story.gang(f"g{number}", members, of)
        step = STEPS[number % len(STEPS)]
        if step != "at once":
            reached: Callable[[], bool] = lambda step=step, names=names: getattr(story, step)(names)  # noqa: E731
            eventually(reached, timeout=TIMEOUT)
        else:
            time.sleep(0.02 * number % 0.3)
        scheduler.kill()
        killed += 1
        story.check()
        scheduler = cluster.scheduler()
        cluster.all_bound(names, timeout=TIMEOUT)
        story.check()
        for name in names:
            cluster.delete_pod(name, grace=0)
    return killed
