"""The CustomResourceDefinitions of our kinds, and the admission policies: what the API server refuses by itself.

Both are made from the types and the rules in stromboli.api.

definitions          builds the definitions and their files in deploy/
schema_facets        patterns, enumerations and limits of fields
descriptions         what `kubectl explain` says
mutations            MutatingAdmissionPolicies: what the server fills in
policies             ValidatingAdmissionPolicies and their bindings
policy_expressions   a rule of a struct as an expression over the whole object
yaml_files           how generated files are written
"""

from .definitions import definitions, files
from .mutations import mutating_policies, mutation_files
from .policies import policy_files, validating_policies

__all__ = ["definitions", "files", "mutating_policies", "mutation_files", "policy_files", "validating_policies"]
