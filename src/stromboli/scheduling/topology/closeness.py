"""Which domains a group may be in, by what it asks for and where its pods are already.

Where its pods are decides, never what is written on it. If the tree has changed under a hard group, so that no allowed
domain has all its pods, nobody is evicted for it: new pods join the part with most members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stromboli.cluster.topology import Closeness, Domain, Tree
from stromboli.scheduling.framework import Framework


def tree_for(session: Framework, closeness: Closeness) -> Tree:
    if closeness.label_key:
        return session.snapshot.topology.by_label(closeness.label_key)
    return session.topology


def allowed_tiers(tree: Tree, closeness: Closeness) -> tuple[int, ...]:
    """The tiers that one domain for the whole group may be of, from the lowest; none if the highest tier has a name
    that no domain has."""
    if not closeness.hard:
        return tree.tiers
    highest = closeness.highest_tier
    if closeness.highest_tier_name:
        highest = tree.tier_named(closeness.highest_tier_name)
        if highest is None:
            return ()
    return tree.tiers if highest is None else tuple([tier for tier in tree.tiers if tier <= highest])


def home_domains(tree: Tree, tiers: Sequence[int], rows: Iterable[int]) -> list[Domain]:
    """For a group with pods on these rows: the domains of these tiers that have them all, from the narrowest; else the
    one with most of them."""
    members = list(rows)
    smallest = tree.around(members)
    around = [] if smallest is None else [smallest, *tree.above(smallest)]
    allowed = [domain for domain in around if domain.tier in tiers]
    if allowed or not tiers:
        return allowed
    by_domain = Counter(index for row in members if (index := tree.at(tiers[-1], row)) >= 0)
    if not by_domain:
        return []
    most = max(by_domain.values())
    return [tree.domains[min(index for index, number in by_domain.items() if number == most)]]
