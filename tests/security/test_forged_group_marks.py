"""A tenant writes marks on its own PodGroup: nobody else gets less, or later, for it."""

from __future__ import annotations

import pytest

from reservations.reservation_scenes import Document, gang, node, owned, play, pod, queue, reservation

FORGED = {
    "scheduling.stromboli.io/goes-whole": ("true", "x" * 1_000),
    "scheduling.stromboli.io/cooldown-until": ("9999-01-01T00:00:00Z", "soon"),
    "scheduling.stromboli.io/pod-labels": ('[{"app": "r"}]', "[" * 100_000, '{"app": 1}', "[1]"),
}


def with_mark(documents: list[Document], mark: str, value: str) -> list[Document]:
    for document in documents:
        if document["kind"] == "PodGroup":
            document["metadata"].setdefault("annotations", {})[mark] = value
    return documents


@pytest.mark.parametrize("mark", FORGED)
def test_what_is_reclaimed_is_reclaimed_as_soon(mark: str) -> None:
    """4 CPUs, two equal queues: the gang of one has all of them, and half are the other's."""

    def bound(value: str | None) -> object:
        theirs = gang("evil", 4, 1, queue="a")
        marked = list(theirs) if value is None else with_mark(list(theirs), mark, value)
        scene = [node("n1", 4), queue("a"), queue("b"), *marked, *gang("mine", 2, 1, queue="b", at=3)]
        return play(*scene, until=8).pod("mine-0")["bound"]

    assert bound(None) is not None
    for value in FORGED[mark]:
        assert bound(value) == bound(None)


@pytest.mark.parametrize("mark", FORGED)
def test_what_is_held_for_others_stays_held(mark: str) -> None:
    """4 CPUs, of which 3 are held for pods of the namespace `default`."""
    for value in FORGED[mark]:
        theirs = with_mark(list(gang("evil", 2, 1, at=1)), mark, value)
        for document in theirs:
            document["metadata"]["namespace"] = "evil"
        outcome = play(node("n1", 4), reservation("r", 3), *theirs, owned(pod("mine", 3, at=4)), until=7)
        assert outcome.pod("mine")["bound"] == 4
        assert outcome.reservation()["owners"] == ["default/mine"]


@pytest.mark.parametrize("value", FORGED["scheduling.stromboli.io/pod-labels"])
def test_a_group_without_pods_is_not_admitted_for_what_is_held_for_others(value: str) -> None:
    """Its labels are all that is known of its pods. 4 CPUs, of which 3 are held; it asks for 3 and has no pods yet."""
    [marked] = with_mark([one for one in gang("evil", 1, 3, at=1) if one["kind"] == "PodGroup"], *labels(value))
    marked["metadata"]["namespace"] = "evil"
    marked["spec"]["minResources"] = {"cpu": "3"}
    outcome = play(node("n1", 4), reservation("r", 3), marked, owned(pod("mine", 3, at=4)), until=7)
    assert outcome.pod("mine")["bound"] == 4
    assert outcome.reservation()["owners"] == ["default/mine"]


def labels(value: str) -> tuple[str, str]:
    return "scheduling.stromboli.io/pod-labels", value
