"""kube-apiserver instead of the embedded server: with which options it is started. Programs of a few lines stand in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stromboli.console.up.real_server import RealServer
from stromboli.errors import UserError

GROUPS = (
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
)
KNOWS_GROUPS = [
    "kube:CompositePodGroup=true|false (ALPHA - default=false)",
    "kube:GenericWorkload=true|false (BETA - default=false)",
    "kube:TopologyAwareWorkloadScheduling=true|false (ALPHA - default=false)",
]


def options(folder: Path, help_text: list[str]) -> list[str]:
    """Those that kube-apiserver gets, which then ends; its help has these lines."""
    assets = folder / "assets"
    assets.mkdir()
    told = "\n".join(help_text)
    programs = {
        "etcd": "exec sleep 60",
        "kube-apiserver": f"if [ \"$1\" = --help ]; then cat <<'END'\n{told}\nEND\nexit\nfi\n"
        f'printf "%s\\n" "$@" >{folder}/options\necho "no etcd" >&2\nexit 1',
    }
    for name, script in programs.items():
        (assets / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (assets / name).chmod(0o755)

    async def start() -> None:
        async with RealServer(assets, folder / "data", host="127.0.0.1", port=0):
            pass

    with pytest.raises(UserError, match="kube-apiserver ended at once: no etcd"):
        asyncio.run(start())
    return (folder / "options").read_text(encoding="utf-8").splitlines()


def test_a_server_that_knows_groups_of_pods_gets_them_turned_on(tmp_path: Path) -> None:
    assert set(GROUPS) <= set(options(tmp_path, KNOWS_GROUPS))


@pytest.mark.parametrize("known", [[], KNOWS_GROUPS[1:]])
def test_another_server_is_not_asked_for_what_it_does_not_know(known: list[str], tmp_path: Path) -> None:
    found = options(tmp_path, known)
    assert not [one for one in found if one.startswith(("--feature-gates", "--runtime-config"))]
    assert "--authorization-mode=RBAC" in found
