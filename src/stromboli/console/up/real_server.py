"""kube-apiserver and etcd from KUBEBUILDER_ASSETS, instead of the embedded server."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from pathlib import Path
from typing import Final

import aiohttp

from stromboli.embedded.http import Service, load_token, server_identity, write_kubeconfig
from stromboli.errors import UserError
from stromboli.files import open_for_append, private_folder, write_secret

PROGRAMS: Final = ("etcd", "kube-apiserver")
_PATIENCE: Final = 120.0  # seconds until the server answers; five are usual

# What has to be turned on for Kubernetes' own groups of pods, where a server knows it.
_GATES: Final = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
_VERSIONS: Final = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3")


def find_assets() -> Path:
    """The folder that KUBEBUILDER_ASSETS names. Raises UserError."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not folder:
        raise UserError("--apiserver real needs KUBEBUILDER_ASSETS: the folder with kube-apiserver and etcd.")
    for program in PROGRAMS:
        if not os.access(Path(folder) / program, os.X_OK):
            raise UserError(f"There is no {program} in {folder}; correct KUBEBUILDER_ASSETS.")
    return Path(folder)


class RealServer(Service):
    """Runs inside `async with`. Its data is in the folder, too."""

    def __init__(self, assets: Path, folder: Path, *, host: str, port: int) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.url = ""
        self.parts_token = None
        self._assets = assets
        self._folder = folder
        self._host = host
        self._port = port
        self._programs: list[asyncio.subprocess.Process] = []

    async def _start(self) -> None:
        private_folder(self._folder)
        port = self._port or _free_port()
        identity = server_identity(self._folder, ("127.0.0.1", "localhost", self._host))
        token = load_token(self._folder)
        tokens = self._folder / "tokens.csv"
        write_secret(tokens, f'{token},admin,admin,"system:masters"\n')
        etcd_port = _free_port()
        await self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
            "--listen-peer-urls=http://127.0.0.1:0",
        )
        pem = self._folder / "server.pem"
        await self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--bind-address={self._host}",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--tls-cert-file={pem}",
            f"--tls-private-key-file={pem}",
            f"--token-auth-file={tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'authority.pem'}",
            f"--service-account-signing-key-file={self._folder / 'authority-key.pem'}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--anonymous-auth=false",
            "--max-requests-inflight=10000",
            "--max-mutating-requests-inflight=10000",
            "--enable-priority-and-fairness=false",
            *await self._workload_groups(),
        )
        self.url = f"https://127.0.0.1:{port}"
        write_kubeconfig(self.kubeconfig, server=self.url, authority=identity.authority, token=token)
        await self._until_ready(token, identity.authority)

    async def _workload_groups(self) -> list[str]:
        asked = await asyncio.create_subprocess_exec(
            self._assets / "kube-apiserver", "--help", stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        said = (await asked.communicate())[0].decode(errors="replace")
        if not all(f"{gate}=true|false" in said for gate in _GATES):
            return []
        on = {"feature-gates": _GATES, "runtime-config": _VERSIONS}
        return [f"--{option}={','.join(f'{name}=true' for name in names)}" for option, names in on.items()]

    async def _run(self, program: str, *arguments: str) -> None:
        with os.fdopen(open_for_append(self._folder / f"{program}.log"), "ab") as log:
            started = await asyncio.create_subprocess_exec(
                self._assets / program, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._programs.append(started)

    async def _until_ready(self, token: str, authority: str) -> None:
        context = ssl.create_default_context(cadata=authority)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            for _ in range(int(_PATIENCE / 0.2)):
                for name, program in zip(PROGRAMS, self._programs, strict=True):
                    if program.returncode is not None:
                        raise UserError(f"{name} ended at once: {self._last_line(name)}")
                try:
                    async with session.get(f"{self.url}/api/v1/namespaces/default", ssl=context) as response:
                        if response.status == 200:
                            return
                except (aiohttp.ClientError, OSError):
                    pass
                await asyncio.sleep(0.2)
        raise UserError(f"kube-apiserver did not start within {_PATIENCE:g} seconds: {self._last_line(PROGRAMS[1])}")

    def _last_line(self, program: str) -> str:
        lines = (self._folder / f"{program}.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1][:300] if lines else "it wrote nothing."

    async def _stop(self) -> None:
        for program in reversed(self._programs):
            if program.returncode is None:
                program.terminate()
                try:
                    await asyncio.wait_for(program.wait(), 10)
                except TimeoutError:
                    program.kill()
                    await program.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
