"""What a pod asks for: containers side by side, init containers in turn, sidecars to the end, overhead."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stromboli.api import Container, PodSpec, ResourceRequirements
from stromboli.api.pod_requests import pod_requests

Amounts = dict[str, str | int | float]


def container(*, sidecar: bool = False, limits: Amounts | None = None, **requests: str | int) -> Container:
    return Container(
        resources=ResourceRequirements(requests=dict(requests), limits=limits or {}),
        restart_policy="Always" if sidecar else "",
    )


def test_containers_add_up() -> None:
    spec = PodSpec(containers=[container(cpu=1, memory="1Gi"), container(cpu="500m")])
    assert pod_requests(spec) == {"cpu": 1500, "memory": 2**30}


def test_of_init_containers_only_the_largest_counts_resource_by_resource() -> None:
    # cpu: max(main 1, init 3, init 2) = 3; memory: max(main 2, init 1, init 1) = 2
    spec = PodSpec(
        containers=[container(cpu=1, memory=2)],
        init_containers=[container(cpu=3, memory=1), container(cpu=2, memory=1)],
    )
    assert pod_requests(spec) == {"cpu": 3000, "memory": 2}


def test_a_sidecar_stands_beside_what_starts_after_it_only() -> None:
    # init 5 runs before the sidecar: 5. Then sidecar 2 + init 4 = 6. Then sidecar 2 + main 1 = 3.
    spec = PodSpec(
        containers=[container(cpu=1)],
        init_containers=[container(cpu=5), container(cpu=2, sidecar=True), container(cpu=4)],
    )
    assert pod_requests(spec) == {"cpu": 6000}


def test_overhead_comes_on_top_of_the_largest_moment() -> None:
    # max(main 1, init 2) + overhead 250m
    spec = PodSpec(
        containers=[container(cpu=1)],
        init_containers=[container(cpu=2)],
        overhead={"cpu": "250m", "memory": 7},
    )
    assert pod_requests(spec) == {"cpu": 2250, "memory": 7}


def test_a_limit_stands_in_for_a_missing_request() -> None:
    spec = PodSpec(containers=[container(cpu=1, limits={"cpu": 4, "memory": "1Ki"})])
    assert pod_requests(spec) == {"cpu": 1000, "memory": 1024}


def test_the_pods_own_request_replaces_the_sum_and_overhead_still_counts() -> None:
    # cpu: 3 as the pod says, not 2 + 2, and overhead 1; memory: as the containers say, 10
    spec = PodSpec(
        containers=[container(cpu=2, memory=10), container(cpu=2)],
        resources=ResourceRequirements(requests={"cpu": 3}),
        overhead={"cpu": 1},
    )
    assert pod_requests(spec) == {"cpu": 4000, "memory": 10}


def test_the_pods_own_limit_speaks_only_of_what_no_container_asked_for() -> None:
    spec = PodSpec(containers=[container(cpu=1)], resources=ResourceRequirements(limits={"cpu": 8, "memory": 64}))
    assert pod_requests(spec) == {"cpu": 1000, "memory": 64}


def test_nothing_asked_is_nothing() -> None:
    assert pod_requests(PodSpec(containers=[container(cpu=0)], overhead={"memory": "0"})) == {}


resources = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 9), max_size=3)
init = st.lists(st.tuples(st.booleans(), resources), max_size=5)


def plain(asked: dict[str, int], *, sidecar: bool = False) -> Container:
    return Container(resources=ResourceRequirements(requests={**asked}), restart_policy="Always" if sidecar else "")


@given(st.lists(resources, min_size=1, max_size=4), init, resources)
def test_it_is_the_worst_moment_of_the_pods_life(
    main: list[dict[str, int]], inits: list[tuple[bool, dict[str, int]]], overhead: dict[str, int]
) -> None:
    """Live through the pod moment by moment, each a list of everything that runs then, and take the worst."""
    moments: list[list[dict[str, int]]] = []
    for position, (_, asked) in enumerate(inits):
        moments.append([earlier for sidecar, earlier in inits[:position] if sidecar] + [asked])
    moments.append([asked for sidecar, asked in inits if sidecar] + main)
    expected = {}
    for name, scale in (("cpu", 1000), ("memory", 1), ("gpu", 1)):
        worst = max(sum(running.get(name, 0) for running in moment) for moment in moments)
        if worst + overhead.get(name, 0):
            expected[name] = (worst + overhead.get(name, 0)) * scale

    spec = PodSpec(
        containers=[plain(asked) for asked in main],
        init_containers=[plain(asked, sidecar=sidecar) for sidecar, asked in inits],
        overhead=dict(overhead),
    )
    assert pod_requests(spec) == expected
