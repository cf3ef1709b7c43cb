"""The example of programs that find each other by name, through the whole system: Job, scheduler, runner."""

from __future__ import annotations

from pathlib import Path

import yaml

from embedded.test_up import JOBS, PODS, Api, Machines, Plan, in_cluster, phase_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "kubernetes" / "ring.yaml"


def test_four_programs_add_up_their_ranks(tmp_path: Path) -> None:
    """0 + 1 + 2 + 3 = 6, said by each of them."""
    machines = [Machines([f"node-{number}" for number in range(2)], {"cpu": "2", "memory": "8Gi", "pods": "110"})]
    plan = Plan(folder=tmp_path / "data", persistent=False, machines=machines, runs_processes=True, period=0.2)

    def script(api: Api) -> None:
        api.create(JOBS, yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")))
        phase_of(api, "ring", "Completed")
        for rank in range(4):
            said = api.call("GET", f"{PODS}/ring-member-{rank}/log").body["message"]
            assert said == f"rank {rank} of 4 on ring-member-{rank}: the sum is 6\n"

    in_cluster(plan, script)
