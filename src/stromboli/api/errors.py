"""Errors in objects, for the person who wrote them: which object, which field, and what the field must be."""

from __future__ import annotations

import json
import re


class ApiError(ValueError):
    """One error in one object. `str()` is one line: `Job ns1/j1: spec.queue: must be …`.

    A rule knows only the field and the message; `about` adds the object and the file it was read from.
    """

    def __init__(self, field: str, message: str, *, what: str = "", where: str = "") -> None:
        line = ": ".join(part for part in (where, what, field, message) if part)
        super().__init__(" ".join(line.split()))
        self.field = field
        self.message = message
        self.what = what
        self.where = where

    def about(self, what: str, where: str) -> ApiError:
        return ApiError(self.field, self.message, what=what, where=where)


def member_path(path: str, name: object) -> str:
    """The path of one entry of a mapping: `requests.cpu`, but `labels[example.com/app]`."""
    text = shortened(str(name))
    return f"{path}.{text}" if re.fullmatch(r"[A-Za-z0-9_-]+", text) else f"{path}[{text}]"


def shortened(text: str) -> str:
    """A name inside a message. Names have at most 253 characters, so only what cannot be a name is cut."""
    return text if len(text) <= 253 else text[:57] + "..."


def quote(value: object) -> str:
    """A value inside a message: as JSON on one line, shortened to 60 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
