"""What a page reported on its console."""

from __future__ import annotations

from playwright.sync_api import ConsoleMessage


class Errors:
    """`expected`: the beginnings of messages that are no fault of the page."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        self.seen: list[str] = []

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.seen.append(message.text)

    def unexpected(self) -> list[str]:
        return [text for text in self.seen if not text.startswith(tuple(self.expected))]
