"""The labels of nodes that say which nodes are close together: `topologyKeys`, at the top of the configuration file or
as an argument of the plugin that places groups by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stromboli.api import ApiError
from stromboli.api.validation.topology import check_topology_keys

from .arguments import Arguments
from .located_yaml import Located

if TYPE_CHECKING:
    from .configuration_file import PluginOption

NAME: Final = "topologyKeys"
PLUGIN: Final = "network-topology-aware"


def read_topology_keys(given: Located | None, plugins: Iterable[PluginOption]) -> tuple[str, ...]:
    """From the widest to the narrowest; none if the file has none."""
    keys: tuple[str, ...] = ()
    if given is not None:
        arguments = Arguments({NAME: given.plain()}, lines={NAME: given.line}, where=given.where)
        keys = _checked(arguments)
    for option in plugins:
        if option.name != PLUGIN or NAME not in option.arguments:
            continue
        of_plugin = _checked(option.arguments)
        if keys and of_plugin and of_plugin != keys:
            raise option.arguments.error(NAME, f"must be that of the file ({', '.join(keys)}), or not be given")
        keys = keys or of_plugin
    return keys


def _checked(arguments: Arguments) -> tuple[str, ...]:
    keys = arguments.texts(NAME)
    try:
        check_topology_keys(keys, NAME)
    except ApiError as error:
        raise arguments.error(NAME, error.message) from None
    return keys
