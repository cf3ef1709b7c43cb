"""Scenario files: Kubernetes objects with the times at which users create, change and delete them.

`reader` reads the files, `validation` checks how the documents fit together, and `model` holds the result.
"""

from __future__ import annotations

from .built_in_objects import built_in_objects, is_default_class
from .lifetimes import Lifetime, extract_lifetime
from .model import Scenario, ScenarioObject, ScenarioPatch, ScenarioRestart, ScenarioRun, kind_and_key
from .patches import apply_patch, patch_sort_key
from .scenario_files import read_scenario
from .validation import check_scenario
from .yaml_documents import Origin

__all__ = [
    "Lifetime",
    "Origin",
    "Scenario",
    "ScenarioObject",
    "ScenarioPatch",
    "ScenarioRestart",
    "ScenarioRun",
    "apply_patch",
    "built_in_objects",
    "check_scenario",
    "extract_lifetime",
    "is_default_class",
    "kind_and_key",
    "patch_sort_key",
    "read_scenario",
]
