"""What differs between a simulation and a server for the controllers of workloads.

                        simulation                              server
names of pods           numbered, and none is used twice        the server makes them
a pod that went         is replaced one second later            is replaced at once: time passes by itself
a pod that finished     stays a replica (docs/scenarios.md)     is replaced, because its node gave up on it
owner of a pod          by its name: authors know no uids       by its uid
work in a pass          all there is                            so much that others are not kept waiting
a write that failed     nobody says so: visit again             is reported: `create_failed`
times in objects        are exact                               are whole seconds
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from stromboli.api.timestamps import format_timestamp


@dataclass(frozen=True, slots=True)
class Surroundings:
    is_virtual: bool = True
    visits: int | None = None
    """How many objects of a kind one pass visits; without it, all."""
    writes: int | None = None
    """How many pods the visits of a pass create, delete and count; without it, all."""

    def stamp(self, now: float) -> str:
        """The time as objects hold it. Those of a server have whole seconds."""
        return format_timestamp(now if self.is_virtual else int(now))

    def share_of(self, visited: Sized) -> int:
        """How many pods one of the objects that a pass visits may create, delete or count."""
        return UNLIMITED if self.writes is None else max(1, self.writes // max(1, len(visited)))


UNLIMITED = 1 << 60
