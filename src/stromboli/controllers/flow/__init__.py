"""Jobs that are created one after the other, from templates: JobFlows and JobTemplates."""

from .job_flow_controller import JobFlowController
from .job_template_controller import JobTemplateController

__all__ = ["JobFlowController", "JobTemplateController"]
