"""A real API server with its etcd, on the loopback interface, that can be stopped, killed, paused and made to forget.

    with ApiServer(find_assets()) as server:
        server.client().list("/api/v1/namespaces")

By hand: `python -m tests.kube.server` starts one, says where its kubeconfig is, and waits for Ctrl-C.

Nothing else of a cluster is there. No controller-manager: what is owned by a deleted object stays, and a namespace
that is deleted keeps its contents; the roles `view`, `edit` and `admin` allow nothing, because what they allow is
gathered from other roles by a controller. No scheduler: pods stay unbound. No kubelet: a pod that is bound and deleted
with grace stays until somebody deletes it without.

Outages are those of the API server. Its etcd runs from the beginning to the end and keeps the objects meanwhile.

Whatever becomes of us, no process stays behind: all of them are in the process group of a watchdog, whose input ends
when we end, even if we are killed. It then kills the group and removes the files. (To have the kernel send a signal on
the death of the parent would be shorter, but the parent is a thread there, and servers may be started from threads
that end long before the test does.)
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
import os
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from .certificates import Authority, Identity
from .client import Client, Refused

PROGRAMS = ("etcd", "kube-apiserver", "kubectl")
PATIENCE_SECONDS = 120.0  # a start takes five seconds on an idle machine; busy ones are no failure
GRACE_SECONDS = 3.0  # left to itself, an API server of these years waits a minute for watches that nobody ends

# Who has a token, and the groups they are in: one who may do everything, and one who may do nothing at all.
TOKEN_HOLDERS: Mapping[str, tuple[str, ...]] = {"operator": ("system:masters",), "visitor": ()}

# Who asked for what, of the service accounts alone: everybody else's requests would fill the disk.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}

_WATCHDOG = """
import os, shutil, signal, sys
sys.stdin.read()
group = os.getpgrp()
if os.fork():
    os.wait()  # for the end that the other one of us makes, outside of the group
else:
    os.setsid()
    os.killpg(group, signal.SIGKILL)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


# What has to be turned on for Kubernetes' own groups of pods, where a server knows it.
_GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
_VERSIONS = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3")


class NotUp(Exception):
    """A program did not start, or did not answer in time; says why, with the end of its log."""


class MissingAssets(Exception):
    """The binaries are not there; one line that says how to get them."""


def find_assets() -> Path:
    """The directory with the binaries: the one of KUBEBUILDER_ASSETS, or where `make kube-assets` puts them."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        assets, remedy = Path(given), "correct KUBEBUILDER_ASSETS, or unset it and run 'make kube-assets'"
    else:
        script = Path(__file__).parents[2] / "scripts" / "kube-assets"
        said = subprocess.run([script, "--where"], capture_output=True, text=True, check=True).stdout
        assets, remedy = Path(said.strip()), "run 'make kube-assets', or set KUBEBUILDER_ASSETS"
    for program in PROGRAMS:
        if not os.access(assets / program, os.X_OK):
            raise MissingAssets(f"There is no {program} in {assets}: {remedy}.")
    return assets


class ApiServer:
    """One API server. As a context manager it runs, with its etcd, for the time of the `with` block."""

    port: int
    kubeconfig: Path  # of the administrator, who may do everything

    def __init__(self, assets: Path) -> None:
        self._assets = assets
        self.tokens = {holder: secrets.token_urlsafe(24) for holder in TOKEN_HOLDERS}
        self._etcd: _Program | None = None
        self._server: _Program | None = None
        self._paused = False

    def __enter__(self) -> ApiServer:
        self.folder = Path(tempfile.mkdtemp(prefix="stromboli-api-server-"))  # readable by its owner alone
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-c", _WATCHDOG, self.folder], stdin=subprocess.PIPE, process_group=0
        )
        try:
            self._prepare()
            self._start_on_free_ports()
            self.kubeconfig = self._write_kubeconfig("admin", self._known_by(self._admin))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave nothing behind. Nobody will read the data again, so there is nothing to save."""
        self.kill()
        if self._etcd:
            self._etcd.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._watchdog.communicate()

    # Outages

    def start(self) -> None:
        """Up and answering, on the same port and with the same objects, whatever it was before."""
        self.resume()
        if self._server and self._server.alive:
            return
        self._server = _Program("kube-apiserver", self._server_command(), self.folder, self._watchdog.pid)
        self._server.wait_until(self._is_ready)

    def stop(self) -> None:
        """As in an orderly shutdown: nobody listens any more, requests are answered, and then watches are cut."""
        self.resume()
        if self._server:
            self._server.stop()

    def kill(self) -> None:
        """As in a crash: connections break."""
        if self._server:
            self._server.kill()
        self._paused = False

    def pause(self) -> None:
        """As on a machine that hangs: connections stay, new ones are taken, and nothing is ever answered."""
        self._running.send(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._running.send(signal.SIGCONT)
            self._paused = False

    def compact(self) -> None:
        """Forget the past in etcd, and only there: the API server remembers what it has seen since it was started.

        That is enough to have the next page of a list refused as expired (410), up to Kubernetes 1.33. Watches may
        still begin in that past, and later servers keep pages in memory too; for them there is `forget`.
        """
        revision = int(self._ask_etcd("/v3/kv/range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"])
        try:
            self._ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        except Refused as refused:
            if "has been compacted" not in str(refused):  # nothing has happened since the last time
                raise

    def forget(self) -> None:
        """Forget the past altogether, with an outage: who asks for it, page or watch, is told it has expired (410)."""
        self.stop()
        self.compact()
        self.start()

    # Users

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def client(self, token: str | None = None) -> Client:
        """A client for the bearer of the token, or for the administrator."""
        identity = ssl.create_default_context(cafile=str(self._authority.certificate))
        if token is None:
            identity.load_cert_chain(self._admin.certificate, self._admin.key)
        return Client(self.port, identity, token)

    def client_as(self, user: str) -> Client:
        """A client for any user, who has a certificate made for them now."""
        identity = self._authority.client(user, ())
        context = ssl.create_default_context(cafile=str(self._authority.certificate))
        context.load_cert_chain(identity.certificate, identity.key)
        return Client(self.port, context)

    def kubeconfig_for(self, user: str, *groups: str) -> Path:
        """A kubeconfig for any user. The two in `tokens` show their token, others a certificate made for them now."""
        if user in self.tokens:
            return self._write_kubeconfig(user, {"token": self.tokens[user]})
        return self._write_kubeconfig(user, self._known_by(self._authority.client(user, groups)))

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl prints, as the administrator unless told otherwise; a failure is raised with its words."""
        done = subprocess.run(
            [
                self._assets / "kubectl",
                f"--kubeconfig={kubeconfig or self.kubeconfig}",
                f"--cache-dir={self.folder / 'kubectl'}",
                *arguments,
            ],
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def processor_seconds(self) -> float:
        """What the API server has used so far."""
        fields = Path(f"/proc/{self._running.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def asked(self) -> set[tuple[str, str, str, str]]:
        """What service accounts have asked for so far and were allowed: account, verb, group, resource."""
        lines = (self.folder / "audit.log").read_text(encoding="utf-8").splitlines()
        found: set[tuple[str, str, str, str]] = set()
        for line in lines:
            entry = json.loads(line)
            what = entry.get("objectRef")
            allowed = entry.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
            if what is not None and "resource" in what and allowed:
                resource = "/".join(part for part in (what["resource"], what.get("subresource")) if part)
                account = entry["user"]["username"].rpartition(":")[2]
                found.add((account, entry["verb"], what.get("apiGroup", ""), resource))
        return found

    # How it is done

    @property
    def _running(self) -> _Program:
        assert self._server is not None
        assert self._server.alive, "the API server is not running"
        return self._server

    def _prepare(self) -> None:
        self._authority = Authority(self.folder)
        self._identity = self._authority.server()
        self._admin = self._authority.client("admin", ("system:masters",))
        self._accounts = self._authority.client("service-accounts")  # by this their tokens are signed
        lines = [
            f'{token},{holder},{holder},"{",".join(TOKEN_HOLDERS[holder])}"\n' for holder, token in self.tokens.items()
        ]
        _write_secret(self.folder / "tokens.csv", "".join(lines))
        _write_secret(self.folder / "audit-policy.json", json.dumps(_AUDIT_POLICY))

    def _start_on_free_ports(self) -> None:
        for tries_left in (2, 1, 0):
            self.port, self._etcd_port = _free_port(), _free_port()
            try:
                self._start_etcd()
                self.start()
                return
            except NotUp as error:
                # Between our look and theirs, somebody else may have taken a port.
                if "address already in use" not in str(error) or not tries_left:
                    raise
                self.kill()
                if self._etcd:
                    self._etcd.kill()

    def _start_etcd(self) -> None:
        name = f"etcd-{secrets.token_hex(8)}"

        def is_ours() -> bool:
            members = self._ask_etcd("/v3/cluster/member/list", {})["members"]
            return [member.get("name") for member in members] == [name]

        self._etcd = _Program("etcd", self._etcd_command(name), self.folder, self._watchdog.pid)
        self._etcd.wait_until(is_ours)

    def _etcd_command(self, name: str) -> list[str]:
        program = str(self._assets / "etcd")
        options = {
            "name": name,
            "data-dir": self.folder / name,
            "listen-client-urls": f"http://127.0.0.1:{self._etcd_port}",
            "advertise-client-urls": f"http://127.0.0.1:{self._etcd_port}",
            "listen-peer-urls": "http://127.0.0.1:0",
        }
        if "--unsafe-no-fsync" in _help(program):
            options["unsafe-no-fsync"] = "true"  # the data need not outlive the machine
        return _command(program, options)

    def _server_command(self) -> list[str]:
        program = str(self._assets / "kube-apiserver")
        return _command(
            program,
            {
                "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
                "bind-address": "127.0.0.1",
                "advertise-address": "127.0.0.1",  # else it looks for a network, which there need not be
                "secure-port": self.port,
                "endpoint-reconciler-type": "none",  # would announce an address that is not there
                "service-cluster-ip-range": "10.0.0.0/24",
                "tls-cert-file": self._identity.certificate,
                "tls-private-key-file": self._identity.key,
                "client-ca-file": self._authority.certificate,
                "token-auth-file": self.folder / "tokens.csv",
                "service-account-issuer": "https://kubernetes.default.svc",
                "service-account-key-file": self._accounts.certificate,
                "service-account-signing-key-file": self._accounts.key,
                "authorization-mode": "RBAC",
                "audit-policy-file": self.folder / "audit-policy.json",
                "audit-log-path": self.folder / "audit.log",
                "audit-log-mode": "blocking",  # what was answered is in the file
                "disable-admission-plugins": "ServiceAccount",  # nobody is here to create the accounts
                "allow-privileged": "true",
                # Tests send more at once than a server on two cores is meant to take.
                "enable-priority-and-fairness": "false",
                "max-requests-inflight": 10_000,
                "max-mutating-requests-inflight": 10_000,
                **_workload_groups(_help(program)),
            },
        )

    def _is_ready(self) -> bool:
        # The namespace is created by the server itself, but only after it has called itself ready.
        admin = self.client()
        admin.text("/readyz")
        admin.get("/api/v1/namespaces/default")
        return True

    def _ask_etcd(self, path: str, question: object) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(question), {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                said = answer.read()
                if answer.status != 200:
                    raise Refused(answer.status, "etcd", said.decode(errors="replace"))
                return json.loads(said)
        finally:
            connection.close()

    def _known_by(self, identity: Identity) -> dict[str, str]:
        return {"client-certificate-data": _encoded(identity.certificate), "client-key-data": _encoded(identity.key)}

    def _write_kubeconfig(self, user: str, known_by: Mapping[str, str]) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": _encoded(self._authority.certificate),
                    },
                }
            ],
            "users": [{"name": user, "user": known_by}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user}}],
            "current-context": user,
        }
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        _write_secret(path, json.dumps(content, indent=2))
        return path


class _Program:
    """A program that runs in the background, with a log."""

    def __init__(self, name: str, command: list[str], folder: Path, group: int) -> None:
        self._name = name
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, process_group=group
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        reason = "nobody answered"
        while time.monotonic() < deadline:
            if not self.alive:
                raise NotUp(f"{self._name} ended with status {self._process.returncode}:\n{self._end_of_log()}")
            try:
                if ready():
                    return
            except (OSError, http.client.HTTPException, Refused) as error:
                reason = str(error)
            time.sleep(0.05)
        self.kill()
        raise NotUp(f"{self._name} was not ready in {PATIENCE_SECONDS:g} seconds ({reason}):\n{self._end_of_log()}")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _end_of_log(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


@functools.cache
def _help(program: str) -> str:
    said = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return said.stdout + said.stderr


def _workload_groups(known: str) -> dict[str, object]:
    """Options that turn on Kubernetes' own groups of pods; none for a server that lacks them."""
    if not all(f"{gate}=true|false" in known for gate in _GATES):
        return {}
    on = {"feature-gates": _GATES, "runtime-config": _VERSIONS}
    return {option: ",".join(f"{name}=true" for name in names) for option, names in on.items()}


def _command(program: str, options: Mapping[str, object]) -> list[str]:
    return [program, *(f"--{name}={value}" for name, value in options.items())]


def _free_port() -> int:
    """A port nobody listens on, from below those that the kernel gives to outgoing connections.

    A client that tries again and again to reach a stopped server would else, one time in thirty thousand, be given
    the server's own port to call from, reach itself, and keep the server from ever coming back.
    """
    while True:
        port = random.randrange(12_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _write_secret(path: Path, content: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(content)


def main() -> None:
    try:
        assets = find_assets()
    except MissingAssets as error:
        sys.exit(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ApiServer(assets) as server:
        print(f"export KUBECONFIG={server.kubeconfig}")
        print(f"The API server answers at {server.url} until Ctrl-C.", file=sys.stderr, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print(file=sys.stderr)


if __name__ == "__main__":
    main()
