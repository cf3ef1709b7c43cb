"""Settings that hold for every test.

Property tests draw the same examples on every run and on every machine: a red build must mean that the change
is wrong, never that today's dice were unlucky. There is no deadline, because a slow machine is not a bug.
"""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from stromboli.containment import Strictness

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")


@pytest.fixture(autouse=True)
def errors_are_seen(request: pytest.FixtureRequest) -> Iterator[None]:
    """A live process contains errors. In a test they have to be seen, unless it is about that."""
    Strictness.is_strict = "containment" not in request.node.path.parts
    yield
    Strictness.is_strict = False


@pytest.fixture(autouse=True)
def automatic_garbage_collection() -> Iterator[None]:
    """A live process collects garbage at times of its own. The tests after it in the same process should not pay for
    that with their memory."""
    yield
    if not gc.isenabled():
        gc.enable()
        gc.unfreeze()
