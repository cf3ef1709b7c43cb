"""What a plugin and an action look like.

A cycle is a list of actions (what is done) under a list of plugins (by which rules). Both are classes that
the registry finds by name and builds from the arguments of the configuration file, so both have the same
first half: a name, and a constructor that reads its arguments and nothing else. That constructor runs once
when the configuration is loaded, only to find mistakes in it, and then again for every session; it must
therefore not touch a session, keep state in the class, or have effects anyone could see.

The second half differs. A plugin is opened on every session, where it registers its callbacks, and closed at
the end of it, where it may report. An action is executed between the two.
"""

from __future__ import annotations

from typing import ClassVar

from stromboli.scheduling.configuration.arguments import Arguments

from .session import Session


class Plugin:
    """A policy: registers callbacks on each session. Subclasses set `name` and override what they need."""

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None:
        """Read the arguments. Here and not later, so that a mistake in them is found when they are loaded."""

    def open(self, session: Session) -> None:
        """Register callbacks, and look at the cluster as it is when the cycle begins."""

    def close(self, session: Session) -> None:
        """Report what the cycle came to; called also when an action failed."""


class Action:
    """A step of the cycle. Subclasses set `name` and implement `execute`."""

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None:
        """Read the arguments, under the same rule as for a plugin."""

    def execute(self, session: Session) -> None:
        """Do the step on the session."""
        raise NotImplementedError(f"action {self.name} does nothing")
