"""Judge objects with mistakes in them in all ways there are, and compare the verdicts and the fields.

    python benchmarks/refusals.py --objects 10000
    python benchmarks/refusals.py --objects 10000 --servers $NEW          # a folder with etcd and kube-apiserver
    python benchmarks/refusals.py --objects 10000 --servers $NEW $OLD

A scenario, the embedded server, and the controllers beside a server that knows no rules judge each object. With
`--servers`, so does a kube-apiserver of 1.30 or later with our policies; with two, the old server is a kube-apiserver,
too. Then as many objects that are wrong anywhere are created, and as many changes made, and a scenario and the server
are compared. Objects are sent as dry runs. A difference ends the run, and is printed with its object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kube.client import Client
from kube.crd_install import install_crds, installed_policies, server_version
from kube.server import ApiServer
from kube.test_rules import PATHS, refusal_of
from stromboli.kube.crds import validating_policies
from validation.anywhere import compare_changed, compare_created
from validation.door_story import job, pod, queue
from validation.embedded_client import EmbeddedClient, too_old_to_judge
from validation.mutations import mutated
from validation.verdicts import compare

NAMESPACE = "refusals"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--servers", type=Path, nargs="+", default=[], metavar="FOLDER")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        embedded, old_embedded = EmbeddedClient(), too_old_to_judge()
        embedded.install(*validating_policies())
        pairs: list[tuple[str, Client, Client]] = [("embedded", embedded, old_embedded)]
        started_servers: list[Client] = [stack.enter_context(ApiServer(one)).client() for one in options.servers[:2]]
        for server in started_servers:
            install_crds(server)
        if started_servers:
            new, old = started_servers[0], [*started_servers, old_embedded][1]
            stack.enter_context(installed_policies(new, lambda: _works(new)))
            pairs.append((f"Kubernetes {' and '.join(map(_version, started_servers))}", new, old))
        for server in (embedded, old_embedded, *started_servers):
            server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, door, old in pairs:
            started = time.monotonic()
            seen = Counter(
                compare(document, NAMESPACE, door, old) for document in mutated(options.seed, options.objects)
            )
            print(json.dumps({"servers": name, **seen, "seconds": round(time.monotonic() - started)}), flush=True)
            for what, compared in (("created", compare_created), ("changed", compare_changed)):
                started = time.monotonic()
                seen = compared(options.seed, options.objects, door, NAMESPACE)
                figures = {"servers": name, "wrong anywhere": what, **seen}
                print(json.dumps({**figures, "seconds": round(time.monotonic() - started)}), flush=True)


def _works(admin: Client) -> bool:
    """Whether the policies are in effect."""
    bad = [
        (PATHS["Queue"], queue("q", deserved={"cpu": 2}, capability={"cpu": 1})),
        (PATHS["Job"].format("default"), job("j", minAvailable=3)),
        (PATHS["Pod"].format("default"), pod({"volcano.sh/jdb-min-available": "0"})),
    ]
    return all(refusal_of(admin, path, document) for path, document in bad)


def _version(admin: Client) -> str:
    return ".".join(str(part) for part in server_version(admin))


if __name__ == "__main__":
    main()
