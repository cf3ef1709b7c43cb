"""`ssh`: the pods of a job can log in to each other without a password.

All pods share one key pair, which is generated once for the job and stored in the Secret `<job>-ssh-<uid of the job>`.
Nobody may read Secrets for this: the name tells whose it is, so that one of an earlier job is not taken for this one's,
and nothing is overwritten. It is mounted at
/root/.ssh, readable only by its owner. At another path (`--ssh-key-file-path`), or with `--no-root`, everybody can read
it, because the files belong to root and another user could not read them otherwise. The files have the names that
Volcano uses; the key is Ed25519, which is generated in no time.

The client's configuration maps the name of a pod to its address. Its entries cover whole tasks (`<job>-<task>-*`), so
that they stay valid when the job is scaled.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from stromboli.api import Job, Pod
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_volume
from .host_names import subdomain

HOME = "/root/.ssh"
PRIVATE, PUBLIC, AUTHORISED, CONFIGURATION = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
_FOLDER = ".ssh"


class Ssh:
    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(
            arguments,
            {
                "ssh-key-file-path": HOME,
                "no-root": False,
                "ssh-private-key": "",
                "ssh-public-key": "",
                "ssh-port": 22,
            },
        )
        self._path = flags.text("ssh-key-file-path")
        self._private = flags.text("ssh-private-key")
        self._public = flags.text("ssh-public-key")
        self._port = flags.number("ssh-port")
        self._for_root = self._path == HOME and not flags.switch("no-root")
        if not self._path.startswith("/"):
            raise ValueError(f"the argument --ssh-key-file-path must be an absolute path, not {self._path}")
        if bool(self._private) != bool(self._public):
            raise ValueError("the arguments --ssh-private-key and --ssh-public-key need each other")
        if not 0 < self._port < 65536:
            raise ValueError(f"the argument --ssh-port must be between 1 and 65535, not {self._port}")

    def check(self, job: Job) -> None:
        pass

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        return (OwnedObject("v1", "Secret", _secret_name(job), lambda: self._secret(job), unread=True),)

    def decorate(self, pod: Pod, job: Job) -> Pod:
        secret = {
            "secretName": _secret_name(job),
            "items": [
                {"key": name, "path": f"{_FOLDER}/{name}"} for name in (PRIVATE, PUBLIC, AUTHORISED, CONFIGURATION)
            ],
            "defaultMode": 0o600 if self._for_root else 0o644,
        }
        return with_volume(pod, {"name": f"{job.metadata.name}-ssh", "secret": secret}, self._path, sub_path=_FOLDER)

    def _secret(self, job: Job) -> Mapping[str, Any]:
        private, public = (self._private, self._public) if self._private else _generate_key_pair()
        files = {PRIVATE: private, PUBLIC: public, AUTHORISED: public, CONFIGURATION: self._configuration(job)}
        return {
            "type": "Opaque",
            "data": {name: b64encode(text.encode()).decode() for name, text in files.items()},
        }

    def _configuration(self, job: Job) -> str:
        # Every pod generates its own host key when its SSH server starts, so there is no known key to compare with.
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.spec.tasks:
            name = task.template.spec.hostname or f"{job.metadata.name}-{task.name}-*"
            lines += [f"Host {name} {name}.*", f"  Port {self._port}"]
            # A name with a dot is an address already, and must not get the subdomain twice.
            lines += [f"Host {name} !*.*", f"  HostName %h.{subdomain(job, task)}"]
        return "\n".join([*lines, ""])


def _secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh-{job.metadata.uid}"


def _generate_key_pair() -> tuple[str, str]:
    # Imported only here, where a key is generated: the library is large, and a simulation never needs it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode() + "\n"
