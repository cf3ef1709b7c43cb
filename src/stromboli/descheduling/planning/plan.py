"""A move of one pod, and a plan: moves that are made together or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.cluster import JobKey, TaskKey


@dataclass(frozen=True, slots=True)
class Move:
    """A pod leaves a node, and its successor goes to another."""

    pod: TaskKey
    uid: str
    source: str
    target: str
    request: dict[str, int]  # exact amounts


@dataclass(frozen=True, slots=True)
class Place:
    """A waiting pod gets a node set aside, which the moves of a plan make free for it."""

    pod: TaskKey
    node: str


@dataclass(frozen=True, slots=True)
class Removal:
    """A pod is evicted, or deleted if it has finished, and no place is kept: it is what it is that is wrong, not where
    it is."""

    pod: TaskKey
    uid: str
    node: str
    why: str  # a sentence
    has_finished: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`goal` is a sentence without its end: what the moves achieve."""

    name: str
    profile: str
    plugin: str
    goal: str
    moves: tuple[Move, ...]
    cooldown: float = 0.0
    job: JobKey | None = None  # for whom room is made
    places: tuple[Place, ...] = ()
    emptied: tuple[str, ...] = ()  # nodes that have no movable pods left
    removals: tuple[Removal, ...] = ()
    frees: dict[str, int] = field(default_factory=dict)  # what the sources have free afterwards, beyond now
