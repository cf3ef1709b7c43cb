"""Binds that are decided and wait: the task has its place, and its volumes are being made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

NONE_CHOSEN: Final[Mapping[str, str]] = MappingProxyType({})


class HeldBind(Struct, gc=False):
    """While a task is held it is in status Binding, so its room is taken."""

    node: str
    since: float  # when its volumes were chosen
    waits_for: tuple[str, ...] = ()  # claims that are not bound, as of the last cycle
    volumes: Mapping[str, str] = NONE_CHOSEN  # the existing volume chosen for a claim
    standing: bool = False  # since an earlier cycle; only then its place can be taken from it
