"""Kill the scheduler, the controllers or the descheduler at every step of a move, on a real API server.

    python benchmarks/move_kills.py --rounds 100

Each round empties a node: three pods of two gangs leave it in one plan, and there is exactly one place for each. At a
step of the plan (planned, a place kept, marked, a pod evicted, a place used) one of the three processes is killed
(SIGKILL) and started again, at once or after three seconds; in every sixth round the descheduler stands still
(SIGSTOP) for three seconds at its first eviction. At the same time a pod of one of the gangs that does not move is
deleted, so that a successor comes for which no place is kept. In the end all three pods have moved or none has, no
Reservation is left, no group says that a move runs, no pod is lost, and both gangs had their minimum at every step.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kube.cluster import Cluster, remove_namespace
from kube.move_story import as_table, kill_rounds, move_story
from kube.server import ApiServer, find_assets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    started = time.monotonic()
    with ApiServer(find_assets()) as server, tempfile.TemporaryDirectory() as folder:
        admin = server.client()
        namespace = f"kills-{secrets.token_hex(3)}"
        admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            with Cluster(server, namespace, Path(folder)) as cluster, move_story(cluster) as story:
                rounds = kill_rounds(story, options.rounds, lambda line: print(line, flush=True))
        finally:
            remove_namespace(admin, namespace)
    for row in as_table(rounds):
        print(json.dumps(row))
    print(json.dumps({"rounds": len(rounds), "seconds": round(time.monotonic() - started)}))


if __name__ == "__main__":
    main()
