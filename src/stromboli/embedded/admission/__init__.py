"""Admission policies: what they change in a request, and what they refuse.

request    a request as a policy sees it, and who made it
matching   which requests a policy is about
policies   policies and bindings, compiled
evaluation the expressions of a policy for a request
admission  all policies, applied to a request
"""

from .admission import Admission
from .request import ADMINISTRATOR, CONTROLLERS, PARTS, Review, User

__all__ = ["ADMINISTRATOR", "CONTROLLERS", "PARTS", "Admission", "Review", "User"]
