"""Nobody waits without a reason."""

from __future__ import annotations

from starvation.scenes import node, pod, queue
from together.situations import situation


def test_a_job_that_its_full_queue_does_not_hold_back_has_the_reason_of_the_nodes() -> None:
    # Both queues want all 4 CPUs and have 2 each, so they have all they deserve. Odd requests no CPU, and no node has
    # what it requests.
    odd = pod("odd", 0, queue="q0")
    odd["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": 1}}
    small = [pod(f"{name}-{number}", 1, queue=name) for name in ("q0", "q1") for number in range(4)]
    report = situation(node("n", 4), queue("q0"), queue("q1"), small, odd, until=3).run()
    told = report["pods"]["default/odd"]
    assert told["reason"] == "InsufficientNode"
    assert "1 with insufficient nvidia.com/gpu (1 requested, at most 0 free)" in told["message"]
