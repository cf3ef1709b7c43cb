"""The conformance tests on the embedded server. tests/kube runs the same ones on kube-apiserver."""

from __future__ import annotations

import pytest

from embedded.api import Api, EmbeddedTransport
from embedded.conformance_kinds import *  # noqa: F403
from embedded.conformance_lists import *  # noqa: F403
from embedded.conformance_objects import *  # noqa: F403
from embedded.conformance_patches import *  # noqa: F403


@pytest.fixture
def api() -> Api:
    return Api(EmbeddedTransport())


@pytest.fixture
def namespace(api: Api) -> str:
    api.create("/api/v1/namespaces", {"metadata": {"name": "test"}})
    return "test"
