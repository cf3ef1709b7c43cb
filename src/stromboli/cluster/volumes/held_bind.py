"""Binds that are decided and wait: the task has its place, and its volumes are being made."""

from __future__ import annotations

from msgspec import Struct, field


class HeldBind(Struct):
    """While a task is held it is in status Binding, so its room is taken."""

    node: str
    since: float  # when its volumes were chosen
    group: int  # tasks of a job that were placed together are held, and bound, together
    size: int = 1  # how many tasks were placed together
    volumes: dict[str, str] = field(default_factory=dict)  # the existing volume chosen for a claim
    waits_for: tuple[str, ...] = ()  # claims that are not bound, as of the last cycle
    standing: bool = False  # since an earlier cycle; only then its place can be taken from it
