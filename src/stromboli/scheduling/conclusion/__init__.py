"""The end of a cycle: the outcome of each job, and the reasons of those that wait.

Actions note what refused a job. The numbers in the sentences are computed here, after all actions: what they saw were
trials, in which half a gang was placed or others had tentative places. `final_books` has the amounts without those,
`node_survey` counts nodes, `gang_fit` says how many pods of a gang fit, `close_fit` the same for groups that must be
close together, by `closest_domain`. `never` finds gangs that cannot start at all, `explainer` chooses the dominant
reason, and `conclude` writes conditions and statuses.
"""

from .conclude import conclude
from .explainer import Explainer
from .node_survey import NodeSurvey

__all__ = ["Explainer", "NodeSurvey", "conclude"]
