"""Settings that hold for every test.

Property tests draw the same examples on every run and on every machine: a red build must mean that the change
is wrong, never that today's dice were unlucky. There is no deadline, because a slow machine is not a bug.
"""

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")
