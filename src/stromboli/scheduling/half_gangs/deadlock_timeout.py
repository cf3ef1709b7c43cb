"""How long gangs may wait for each other, as the arguments of the plugin `gang` say."""

from __future__ import annotations

from typing import Final

from stromboli.scheduling.configuration import Arguments, Configuration

PLUGIN: Final = "gang"
_TIMEOUT: Final = 600.0  # seconds


def read_deadlock_timeout(arguments: Arguments) -> float:
    """In seconds; 0: they wait for ever."""
    return arguments.duration("gangDeadlockTimeout", _TIMEOUT, minimum=0)


def deadlock_timeout(configuration: Configuration) -> float:
    """0 also if the plugin is not configured: then there are no gangs."""
    for tier in configuration.tiers:
        for option in tier.plugins:
            if option.name == PLUGIN:
                return read_deadlock_timeout(option.arguments)
    return 0
