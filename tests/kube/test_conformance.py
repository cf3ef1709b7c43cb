"""The conformance tests on kube-apiserver: what the embedded server must be like. See tests/embedded."""

from __future__ import annotations

import pytest

from embedded.api import Api, HttpTransport
from embedded.conformance_kinds import *  # noqa: F403
from embedded.conformance_lists import *  # noqa: F403
from embedded.conformance_objects import *  # noqa: F403
from embedded.conformance_patches import *  # noqa: F403
from kube.server import ApiServer


@pytest.fixture
def api(api_server: ApiServer) -> Api:
    client = api_server.client(api_server.tokens["operator"])
    return Api(HttpTransport(api_server.port, client._identity, api_server.tokens["operator"]))
