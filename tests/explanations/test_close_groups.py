"""What groups say that wait although their pods would fit somewhere, only not close together."""

from __future__ import annotations

from explanations.close_scenes import close_gang, hard, rack
from starvation.scenes import Outcome, pod, scene
from stromboli.scheduling.explanation.next_steps import next_step

RACK = hard(highestTierAllowed=1)


def said(outcome: Outcome, name: str = "g-0") -> str:
    """With what has been found to hold for all of these sentences."""
    code, message = outcome.why(name)
    assert next_step(code, message).endswith(".")
    assert "nodes are available" not in message.replace("0 of", "")
    return f"{code}: {message}"


# 2 racks of 2 nodes with 3 GPUs each have room for 6 pods of one GPU each, and the cluster for 12. Of rack s1, 1 GPU is
# used.
def test_a_group_that_fits_nowhere_names_the_closest_rack() -> None:
    used = pod("old", on="s1-0")
    used["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = 1
    full = scene(rack("s1", 3, 4), rack("s2", 2, 3), used, close_gang("g", 7, topology=RACK), until=3)
    assert said(full.run()) == (
        "DomainShort: No domain up to tier 1 has room for all 7 pods that must start together. Closest is rack s1, "
        "with room for 6 of them: it lacks 1 of 7 nvidia.com/gpu. 0 of 2 nodes of rack s1 have room for some of them: …"
    )
