"""The base class of the descheduler's plugins, and of those that say which pods must stay (evictor plugins).

`strategy` has the base classes of those that make plans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from stromboli.cluster import Node, Task
from stromboli.scheduling.configuration import Arguments

if TYPE_CHECKING:
    from .planning import View

Guard = Callable[[Task, Node, Node], bool]
"""(task, source, target): whether a move would make work for the plugin that registered the guard."""


class Plugin:
    """Created anew for every run; reading the arguments must raise ConfigurationError for those it cannot use."""

    name: ClassVar[str] = ""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def warnings(self) -> tuple[str, ...]:
        """What a careful operator should know about these arguments."""
        return ()


class EvictorPlugin(Plugin):
    def open(self, view: View) -> None:
        """A run begins."""

    def filter(self, task: Task) -> str | None:
        """Why a pod must not be moved, whatever for; None if it may be. A sentence that goes on after the pod."""
        return None

    def pre_eviction_filter(self, task: Task, target: Node) -> str | None:
        """Why a pod must not be moved there."""
        return None

    def prefers_to_stay(self, task: Task) -> bool:
        """Whether other pods should be moved before this one."""
        return False
