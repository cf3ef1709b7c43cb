"""The scheduler's configuration file: its format, arguments of plugins and actions, and YAML with line numbers."""

from .arguments import Arguments, ConfigurationError, quoted
from .configuration_file import (
    ActionOption,
    Configuration,
    Flag,
    PluginOption,
    Tier,
    configuration_text,
    default_configuration,
    load_configuration,
)

__all__ = [
    "ActionOption",
    "Arguments",
    "Configuration",
    "ConfigurationError",
    "Flag",
    "PluginOption",
    "Tier",
    "configuration_text",
    "default_configuration",
    "load_configuration",
    "quoted",
]
