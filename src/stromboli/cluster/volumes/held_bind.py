"""Binds that are decided and wait: the task has its place, and its volumes are being made.

What a scheduler that has just started must know about them is in the status of their pods: that they are held, on which
node, and what becomes of the room there. It is part of the sentence that says why the pod waits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from stromboli.api import Pod

HELD: Final = "WaitingForVolumes"
"""The reason of the condition PodScheduled of a pod that is held."""

NONE_CHOSEN: Final[Mapping[str, str]] = MappingProxyType({})


class HeldBind(Struct, gc=False):
    """While a task is held it is in status Binding, so its room is taken."""

    node: str
    since: float  # when its volumes were chosen
    waits_for: tuple[str, ...] = ()  # claims that are not bound, as of the last cycle
    volumes: Mapping[str, str] = NONE_CHOSEN  # the existing volume chosen for a claim
    standing: bool = False  # since an earlier cycle; only then its place can be taken from it


_LENT: Final = " The room is lent to it."
_USES: Final = re.compile(r" It uses Reservation (\S+) \(uid (\S+)\)\.")


def about_room(*, lent: bool, uses: str) -> str:
    """The end of the sentence about a held task. `uses`: the Reservation, as in the annotation of a pod."""
    name, _, uid = uses.partition("/")
    return (_LENT if lent else "") + (f" It uses Reservation {name} (uid {uid})." if uses else "")


class FormerHold(Struct, frozen=True):
    """What the status of a pod says that an earlier scheduler held."""

    lent: bool
    uses: str


def former_hold(pod: Pod) -> FormerHold | None:
    """None if no scheduler held the pod: then it is nominated to no node, or waits for others to leave."""
    if pod.spec.node_name or not pod.status.nominated_node_name:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == HELD:
            used = _USES.search(condition.message)
            return FormerHold(_LENT in condition.message, "" if used is None else f"{used[1]}/{used[2]}")
    return None
