"""What users read about groups whose pods must be close together, and about sub-groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stromboli.api.quantity import format_duration, stated_amount
from stromboli.cluster.topology import Closeness, Domain, SubGroup, SubGroupPolicy, Tree
from stromboli.grammar import have, plural

_MOST_NAMES = 3


class Lack(NamedTuple):
    """What a domain has too little of."""

    resource: str
    lacks: int
    requested: int  # by all pods that must start together


def domain_name(domain: Domain) -> str:
    """`rack s1`, in the word of its tier: its name, or the label whose value it is; without either, `domain s1`."""
    return f"{tier_word(domain.tier_name)} {domain.name}"


def tier_word(tier_name: str) -> str:
    """The name of a tier may be the key of a label."""
    return tier_name.rpartition("/")[2] or "domain"


def bounds(closeness: Closeness) -> str:
    """The domains that a hard group may be in, as in "no {rack}"."""
    if closeness.label_key:
        return f"domain by the label {closeness.label_key}"
    if closeness.highest_tier_name:
        return f"domain up to the tier {closeness.highest_tier_name}"
    if closeness.highest_tier is not None:
        return f"domain up to tier {closeness.highest_tier}"
    return "domain"


def no_domain(closeness: Closeness) -> str:
    return f"No {bounds(closeness)} would be enough for all pods that must start together, even if it were empty."


def without_domains(closeness: Closeness, tree: Tree, *, hyper_nodes: bool) -> str:
    """There is no domain at all that a hard group may be in. `hyper_nodes`: whether there are any."""
    if closeness.label_key:
        return (
            f"The pods must be in one domain by the label {closeness.label_key}, and no node has it; label the nodes."
        )
    said = "The pods must be in one domain, and there is none"
    if not tree and hyper_nodes:
        return f"{said}: no HyperNode has nodes and can be used. Their conditions say why."
    if not tree:
        return f"{said}: create HyperNodes, or name labels of nodes in topologyKeys of the configuration."
    if closeness.highest_tier_name:
        known = list(dict.fromkeys(domain.tier_name for domain in tree.domains if domain.tier_name))
        named = f"tiers have these names: {', '.join(known)}" if known else "no tier has a name"
        return f"{said} up to the tier {closeness.highest_tier_name}; {named}. Correct highestTierName."
    return f"{said} up to tier {closeness.highest_tier}: the lowest tier is {tree.tiers[0]}. Raise highestTierAllowed."


# -- a group ----------------------------------------------------------------------------------------------------------


def no_room(closeness: Closeness, closest: Domain, found: int, needed: int, lack: Lack | None, *, never: bool) -> str:
    """No domain has enough for what must start together. `found`: how many of these pods have room in the closest;
    `never`: users have read already that none is large enough."""
    if never:
        return f"Now, {_closest(closest, found, lack, 'closest')}"
    if needed == 1:
        return f"No {bounds(closeness)} has room for a pod of the group."
    return f"No {bounds(closeness)} has room for all {needed} pods that must start together. " + _closest(
        closest, found, lack
    )


def _closest(closest: Domain, found: int, lack: Lack | None, first: str = "Closest") -> str:
    return f"{first} is {domain_name(closest)}, with room for {found or 'none'} of them{_lacks(lack)}."


def _lacks(lack: Lack | None) -> str:
    if lack is None:
        return ""
    amounts = (stated_amount(lack.resource, amount) for amount in (lack.lacks, lack.requested))
    return ": it lacks {} of {} ".format(*amounts) + lack.resource


def no_room_at_home(home: Domain, found: int, needed: int, lack: Lack | None, *, runs: bool) -> str:
    """Other pods of a hard group are in a domain already. `runs`: the group runs, and these are more than it needs."""
    where = domain_name(home)
    if runs:
        return f"The group runs in {where} and may not leave it, and there is no room for one more pod."
    return (
        f"Others of the group are in {where}, and it may not leave it: there is room for {found} of the {needed} pods "
        f"that must start together{_lacks(lack)}."
    )


def outgrown(group: str) -> str:
    """To the pods of a hard group, or sub-group, that lacks pods for which its domain can never have room."""
    return (
        f"{group} lacks pods, and the domain of the others could not hold it even if nothing else ran there. They were "
        "evicted so that all can start in another one."
    )


def outgrown_domain(group: str, timeout: float, due: str) -> str:
    """`timeout`: seconds that a gang waits in vain; 0 for ever. `due`: when its pods have to go."""
    said = f"{group} lacks pods, and the domain of the others could not hold it even if nothing else ran there."
    if not timeout:
        return f"{said} They are not evicted, because gangDeadlockTimeout of the plugin gang is 0."
    return (
        f"{said} They are evicted so that all can start in another one, once it has waited for "
        f"{format_duration(timeout)} (gangDeadlockTimeout of the plugin gang), at {due}."
    )


def outgrown_next_step(timeout: float) -> str:
    end = "wait until its pods are evicted" if timeout else "delete its pods, so that all start in another one"
    return f"Add nodes to its domain, or {end}."


def never_in_a_domain(closeness: Closeness, needed: int, most: int | None) -> str:
    """`most`: how many of them have room in the largest, if they are equal. It begins as other such sentences do."""
    which = f"no {bounds(closeness)} has room"
    if most is None:
        return f"The gang can never start: {which} for all {needed} pods that must start together, even if it is empty."
    return f"The gang can never start: it needs {needed} equal pods, and {which} for more than {most}, even if empty."


def several_domains(closeness: Closeness, members: Sequence[tuple[Domain, int]], outside: int) -> str:
    """A hard group runs, and its pods are in no allowed domain together. `members`: how many are where, the most
    first; `outside`: how many are on nodes in no domain."""
    parts = [f"{number} in {domain_name(domain)}" for domain, number in members[:_MOST_NAMES]]
    rest = len(members) - _MOST_NAMES
    parts += [plural(rest, "more domain")] if rest > 0 else []
    parts += [f"{outside} in none"] if outside else []
    goes = f" Pods that are created for it go to {domain_name(members[0][0])}." if members else ""
    return (
        f"Its pods are in no {bounds(closeness)} together: {', '.join(parts)}. The domains, or what the group asks "
        f"for, have changed since they started. None of them is evicted for that.{goes}"
    )


# -- sub-groups -------------------------------------------------------------------------------------------------------


def _policy(policy: SubGroupPolicy) -> str:
    return f'The sub-group policy "{policy.name}"' if policy.name else "The sub-group policy"


def _of_users(group: SubGroup) -> str:
    return group.name if group.policy.groups else f'The sub-group "{group.name}"'


def too_few_sub_groups(policy: SubGroupPolicy, whole: int, beside: str, creator: str) -> str:
    """Pods are missing. `whole`: sub-groups that have all their pods; `beside`: a sentence about pods that are in no
    sub-group, though they should be."""
    if policy.groups:
        return f"{policy.name} must start together with the other groups, and pods of it are missing. " + (
            beside or "Create them, or lower minCount."
        )
    size = "" if policy.size is None else f" of {plural(policy.size, 'pod')}"
    create = f"The controllers create the others; if they do not, look at the events of {creator}." if creator else (
        "Create the other pods, or lower minSubGroups."
    )  # fmt: skip
    return (
        f"{_policy(policy)} needs {plural(policy.least, 'sub-group')}{size}, and {whole} {have(whole)} all their pods. "
        f"{beside or create}"
    )


def incomplete_sub_group(group: SubGroup) -> str:
    return (
        f"{_of_users(group)} starts when it has all of its {group.size} pods, and it has {group.members}. Create the "
        "others."
    )


def sub_groups_short(policy: SubGroupPolicy, running: int, fit: int, why: str) -> str:
    """`fit`: sub-groups that could start now beside those that run."""
    if policy.groups:
        return f"The groups that are needed start together, or none of them does. {why}"
    needed = plural(policy.least, "whole sub-group")
    return f"{_policy(policy)} needs {needed}: {running} run, and {fit} more fit now. {why}"


def sub_group_short(
    group: SubGroup, closeness: Closeness | None, closest: Domain | None, found: int, needed: int, *, is_next: bool
) -> str:
    """Why one sub-group cannot start. `is_next`: others that fit have their places already."""
    if group.policy.groups:
        said = f"For {group.name}{', beside those that fit' if is_next else ''}, "
    else:
        said = f'For {"the next one, " if is_next else ""}"{group.name}", '
    if closeness is None or closest is None:
        return f"{said}there is room for {found} of the {needed} pods that must start together."
    where = _closest(closest, found, None)
    return f"{said}no {bounds(closeness)} has room for all {needed} pods that must start together. {where}"
