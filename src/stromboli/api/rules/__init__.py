"""The rules over several fields, each written once: in Python, in CEL, and as a sentence.

An object is judged in many places: in a simulation, by the controllers, and by API servers, which evaluate CEL. A rule
that is written down twice will one day have two meanings. So a rule is one value (`rule.py`) with both forms side by
side, and a property test compares them on mutated objects.

    rule       what a rule is, and who can judge it
    walk       the parts of an object that have rules
    queues, groups, jobs, lifecycle_policies, reservations, hyper_nodes, others    the rules of our kinds
    quantities resource lists: what one states is within what another states
    unchanged  fields that must not change
    table      all of them, and what only the controllers can see

Rules of single fields (ranges, names, enumerations) are not here: they are the schemas in `kube.crds`.
"""

from .rule import Door, Rule
from .table import RULES, UNSEEN, Unseen, broken_rules, broken_update_rules

__all__ = ["RULES", "UNSEEN", "Door", "Rule", "Unseen", "broken_rules", "broken_update_rules"]
