"""The scheduler's configuration file: its form, the arguments in it, and YAML whose values know their lines."""

from .arguments import Arguments, ConfigurationError, quoted
from .file import (
    ActionOption,
    Configuration,
    PluginOption,
    Tier,
    default_configuration,
    load_configuration,
)

__all__ = [
    "ActionOption",
    "Arguments",
    "Configuration",
    "ConfigurationError",
    "PluginOption",
    "Tier",
    "default_configuration",
    "load_configuration",
    "quoted",
]
