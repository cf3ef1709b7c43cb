"""The CustomResourceDefinitions of our kinds, generated from the types in stromboli.api.

definitions        builds the definitions and the files in deploy/
schema_facets      patterns, enumerations and limits of fields
validation_rules   rules over several fields, in CEL
"""

from .definitions import definitions, files

__all__ = ["definitions", "files"]
