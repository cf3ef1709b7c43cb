"""A new configuration may need more kinds about volumes while the API server does not answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from stromboli.kube.client import STORAGE_CLASSES, Failure, Resource
from stromboli.kube.runtime import watch_more


def test_what_could_not_be_asked_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["stromboli.kube.runtime.volume_kinds"]
    answers: list[Any] = [Failure(503, "the server is away"), [STORAGE_CLASSES]]
    added: list[Resource[Any]] = []

    async def volume_kinds(client: object, configuration: object) -> list[Resource[Any]]:
        answer = answers.pop(0)
        if isinstance(answer, Failure):
            raise answer
        return list(answer)

    def add(kinds: Iterable[Resource[Any]]) -> list[Any]:
        added.extend(kinds)
        raise asyncio.CancelledError  # all is seen

    monkeypatch.setattr(module, "volume_kinds", volume_kinds)
    monkeypatch.setattr(module, "RETRY_AFTER", 0.0)

    async def story() -> None:
        changed = asyncio.Event()
        changed.set()
        with pytest.raises(asyncio.CancelledError):
            await watch_more(None, changed, lambda: None, add)  # type: ignore[arg-type, return-value]

    asyncio.run(story())
    assert added == [STORAGE_CLASSES]
    assert answers == []
