"""Kill the scheduler at every step between choosing volumes and binding pods, on a real API server.

    python benchmarks/volume_kills.py --rounds 50

Each round creates a gang of three pods with a claim each, waits until a node is selected, a volume exists, a claim is
bound, or a pod is bound, and kills the scheduler (SIGKILL). A new one has to finish the gang. After every kill and at
the end of every round, no claim may have two volumes, and no pod may be bound without its claim.
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
from kube.server import ApiServer, find_assets
from kube.volume_story import kill_rounds, volume_story


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    started = time.monotonic()
    with ApiServer(find_assets()) as server, tempfile.TemporaryDirectory() as folder:
        admin = server.client()
        namespace = f"kills-{secrets.token_hex(3)}"
        admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            with Cluster(server, namespace, Path(folder)) as cluster:
                cluster.hollow_nodes(3, volumes=True)
                with volume_story(cluster) as story:
                    killed = kill_rounds(story, options.rounds)
        finally:
            remove_namespace(admin, namespace)
    print(json.dumps({"rounds": options.rounds, "killed": killed, "seconds": round(time.monotonic() - started)}))


if __name__ == "__main__":
    main()
