"""Volumes that are mounted inside each other, over the folder of the runner itself, or for other users."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube.client import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS

from .machine import Document, Machine, play, shell


@pytest.mark.parametrize("outer", ["/mnt/data", "/new-data", "//new-data", "/var/run/data"])
def test_a_volume_inside_another_hides_nothing_of_it(tmp_path: Path, monkeypatch: Any, outer: str) -> None:
    """What is written beside the inner one reaches the volume, and updates leave the inner one alone."""
    monkeypatch.setattr("stromboli.kube.runner.process_runner._REFRESH_SECONDS", 0.2)

    async def story(machine: Machine) -> None:
        await machine.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
        volumes: list[Document] = [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]
        mounts = [
            {"name": "e", "mountPath": outer},
            {"name": "c", "mountPath": f"{outer}/deep/inner"},
            {"name": "c", "mountPath": "/etc/outer", "readOnly": True},
            {"name": "c", "mountPath": "/etc/outer/file", "subPath": "b"},
        ]
        script = f"echo kept >{outer}/x; cat {outer}/deep/inner/a /etc/outer/file; sleep 1; cat /etc/outer/file"
        reads = [{"name": "e", "mountPath": "/mnt/other"}]
        await machine.run(
            "p", {**shell(script), "volumeMounts": mounts},
            {**shell("until cat /mnt/other/x; do sleep 0.05; done 2>/dev/null"), "name": "two", "volumeMounts": reads},
            volumes=volumes,
        )  # fmt: skip
        assert await machine.output("p") == "122"
        assert await machine.log("p", "two") == "kept\n"

    play(tmp_path, story)


def test_a_volume_may_hide_the_folder_of_the_runner(tmp_path: Path) -> None:
    """Such as one at /tmp, where everything is that is not kept."""

    async def story(machine: Machine) -> None:
        await machine.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        volumes: list[Document] = [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]
        mounts = [{"name": "e", "mountPath": str(tmp_path)}, {"name": "c", "mountPath": "/etc/deep/in/many/folders"}]
        script = f"ls -A {tmp_path}; cat /etc/deep/in/many/folders/a; getent hosts p >/dev/null && echo named"
        await machine.run("p", {**shell(script), "volumeMounts": mounts}, volumes=volumes)
        assert await machine.output("p") == "1named\n"

    play(tmp_path, story)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_may_write_into_a_claim(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.create(PERSISTENT_VOLUME_CLAIMS, {
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })  # fmt: skip
        await machine.client.patch(
            PERSISTENT_VOLUME_CLAIMS, "default/c", {"status": {"phase": "Bound"}}, subresource="status"
        )
        main = {**shell("id -u >/mnt/c/x; cat /mnt/c/x"), "volumeMounts": [{"name": "v", "mountPath": "/mnt/c"}]}
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        await machine.run("p", main, volumes=volumes, securityContext={"runAsUser": 12345})
        assert await machine.output("p") == "12345\n"

    play(tmp_path, story)
