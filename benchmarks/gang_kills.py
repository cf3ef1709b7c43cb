"""Kill the scheduler and the controllers while a gang is partly bound, on a real API server.

    python benchmarks/gang_kills.py --kills 60
    python benchmarks/gang_kills.py --kills 40 --sub-groups

Each round submits eight Jobs of 3 to 5 pods in one queue, and there is room for three. As soon as a gang has one pod on
a node (or two, or three) and lacks others, the scheduler is killed (SIGKILL) and started again, five times in a round;
in every fourth round the controllers are killed with it. In another fourth the controllers alone are killed, which does
not count; nor do kills that came when the gang was already whole.

At no step is a pod bound twice, lost, or bound where there is no room, and no gang is started before one that an
earlier scheduler left half bound. Every gang is whole within 60 seconds of its first bind.

With --sub-groups each round has two gangs of 32 pods in four sub-groups, and room for one of them in six racks. Each
sub-group must be in one rack, it is the sub-groups that are whole within 60 seconds of their first bind, and only the
scheduler is killed.
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
from kube.gang_story import GANGS, SUB_GROUPS, as_table, gang_story, kill_rounds
from kube.server import ApiServer, find_assets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--sub-groups", action="store_true")
    options = parser.parse_args()
    shape = SUB_GROUPS if options.sub_groups else GANGS
    started = time.monotonic()
    with ApiServer(find_assets()) as server, tempfile.TemporaryDirectory() as folder:
        admin = server.client()
        namespace = f"kills-{secrets.token_hex(3)}"
        admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            with Cluster(server, namespace, Path(folder)) as cluster, gang_story(cluster, shape) as story:
                rounds = kill_rounds(story, options.kills, say=lambda line: print(line, flush=True))
        finally:
            remove_namespace(admin, namespace)
    for row in as_table(rounds):
        print(json.dumps(row))
    print(json.dumps({"rounds": len(rounds), "seconds": round(time.monotonic() - started)}))


if __name__ == "__main__":
    main()
