"""The base classes of plugins and actions.

Actions are the steps of a cycle, plugins are the policies that they follow. Both are classes that the registry finds by
name and creates from the arguments of the configuration file. So both have a name, and a constructor that reads its
arguments and does nothing else: it runs when a configuration is loaded, to find mistakes, and again for every session.

A plugin is opened at the start of a session, where it registers its callbacks, and closed at its end. An action is
executed in between.
"""

from __future__ import annotations

from typing import ClassVar

from stromboli.scheduling.configuration.arguments import Arguments

from .session import Session


class Plugin:
    """A policy: registers callbacks on each session. Subclasses set `name` and override what they need."""

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None:
        """Read all arguments here, so that mistakes are found when the configuration is loaded."""

    def open(self, session: Session) -> None:
        """Register callbacks. The session has the cluster's state at the start of the cycle."""

    def close(self, session: Session) -> None:
        """Called after the last action, before the outcome of each job is recorded. Not called if an action fails."""


class Action:
    """A step of the cycle. Subclasses set `name` and implement `execute`."""

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None:
        """Read all arguments here, as a plugin does."""

    def execute(self, session: Session) -> None:
        """Run the step on the session."""
        raise NotImplementedError(f"action {self.name} does not implement execute")
