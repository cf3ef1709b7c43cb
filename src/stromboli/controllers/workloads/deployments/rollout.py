"""How pods pass from the sets with earlier templates to the one with the present template.

Recreate: the old sets get 0 pods; when their last pod has ended, the new set gets all of them.

RollingUpdate: two limits hold at all times. With 4 replicas, maxSurge 1 and maxUnavailable 1:

    pods of all sets       at most  4 + 1 = 5      the new set grows as far as this allows
    pods that are ready    at least 4 - 1 = 3      the old sets shrink as far as this allows; first by pods that are not
                                                   available anyway, then by others, the oldest set first

A step changes the new set or the old ones, not both: what comes next follows from what became of the pods.

When a Deployment is scaled in the middle of this, all sets are scaled in proportion first, so that the parts stay as
they are.
"""

from __future__ import annotations

from stromboli.api import Deployment, ReplicaSet, key

from .sets import Sets, desired_in, most_in, surge_and_unavailable

Sizes = dict[str, int]
"""The new sizes of sets, by key; of those that stay as they are, nothing."""


def next_sizes(deployment: Deployment, sets: Sets, *, old_pods: int) -> Sizes:
    """`old_pods`: how many pods of earlier templates have not ended."""
    if _was_scaled(deployment, sets):
        return scaled(deployment, sets)
    if deployment.spec.strategy.type == "Recreate":
        shrunk = {key(one): 0 for one in sets.old if one.spec.replicas}
        if shrunk or old_pods or sets.new is None or sets.new.spec.replicas == deployment.spec.replicas:
            return shrunk
        return {key(sets.new): deployment.spec.replicas}
    return _grown(deployment, sets) or _shrunk(deployment, sets)


def first_size(deployment: Deployment, sets: Sets, *, old_pods: int) -> int:
    """Of a new set: what it would be given if it had no pods."""
    wanted = deployment.spec.replicas
    if deployment.spec.strategy.type == "Recreate":
        return 0 if old_pods or any(one.spec.replicas for one in sets.old) else wanted
    surge, _ = surge_and_unavailable(deployment)
    return max(0, min(wanted, wanted + surge - sum(one.spec.replicas for one in sets.old)))


def _grown(deployment: Deployment, sets: Sets) -> Sizes:
    new, wanted = sets.new, deployment.spec.replicas
    if new is None or new.spec.replicas == wanted:
        return {}
    if new.spec.replicas > wanted:
        return {key(new): wanted}
    surge, _ = surge_and_unavailable(deployment)
    free = wanted + surge - sum(one.spec.replicas for one in sets.every)
    return {key(new): min(wanted, new.spec.replicas + free)} if free > 0 else {}


def _shrunk(deployment: Deployment, sets: Sets) -> Sizes:
    least = deployment.spec.replicas - surge_and_unavailable(deployment)[1]
    new = sets.new
    coming = 0 if new is None else new.spec.replicas - new.status.available_replicas
    may_go = sum(one.spec.replicas for one in sets.every) - least - coming
    found: Sizes = {}
    for one in sets.old:
        broken = min(max(0, one.spec.replicas - one.status.available_replicas), may_go)
        if broken > 0:
            found[key(one)] = one.spec.replicas - broken
            may_go -= broken
    may_go = min(may_go, sum(one.status.available_replicas for one in sets.every) - least)
    for one in sets.old:
        left = found.get(key(one), one.spec.replicas)
        gone = min(left, may_go)
        if gone > 0:
            found[key(one)] = left - gone
            may_go -= gone
    return found


# -- scaling ----------------------------------------------------------------------------------------------------------


def sizes_while_paused(deployment: Deployment, sets: Sets) -> Sizes:
    """As in a rollout, but nothing passes from set to set."""
    in_parts = sum(one.spec.replicas > 0 for one in sets.every) > 1
    return {} if in_parts and not _was_scaled(deployment, sets) else scaled(deployment, sets)


def _was_scaled(deployment: Deployment, sets: Sets) -> bool:
    known = (desired_in(one) for one in sets.every if one.spec.replicas)
    return any(desired not in (None, deployment.spec.replicas) for desired in known)


def scaled(deployment: Deployment, sets: Sets) -> Sizes:
    """Sets whose size stays are in the answer as well: their annotations change."""
    wanted = deployment.spec.replicas
    active = [one for one in sets.every if one.spec.replicas]
    if len(active) <= 1:
        return {key(one): wanted for one in active or sets.every[-1:]}
    new = sets.new
    if new is not None and new.spec.replicas == wanted == new.status.available_replicas == desired_in(new):
        return {key(one): 0 for one in sets.old if one.spec.replicas}
    if deployment.spec.strategy.type == "Recreate":
        return {}
    most = wanted + surge_and_unavailable(deployment)[0] if wanted else 0
    to_add = most - sum(one.spec.replicas for one in active)
    # Growth goes to the largest set first, and of equal ones to the newest; loss to the largest, the oldest.
    active.sort(key=lambda one: one.metadata.creation_timestamp or "", reverse=to_add > 0)
    active.sort(key=lambda one: -one.spec.replicas)
    found: Sizes = {}
    added = 0
    for one in active:
        share = _share(one, wanted, most, to_add - added) if to_add else 0
        found[key(one)] = one.spec.replicas + share
        added += share
    found[key(active[0])] = max(0, found[key(active[0])] + to_add - added)
    return found


def _share(replicas: ReplicaSet, wanted: int, most: int, left: int) -> int:
    """What one set gains or loses, in proportion to its part of what all of them might have when it was last scaled."""
    size = replicas.spec.replicas
    if not wanted:
        return -size
    before = most_in(replicas) or most
    part = (2 * size * most + before) // (2 * before) - size  # rounded to the nearest
    return min(part, left) if left > 0 else max(part, left)
