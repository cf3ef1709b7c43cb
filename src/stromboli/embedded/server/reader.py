"""Reads: one object, a list or a page of one, a watch."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from stromboli import plain_json
from stromboli.embedded.schema.field_errors import forbidden
from stromboli.embedded.status import bad_request, expired, not_found, timeout
from stromboli.embedded.status import invalid as invalid_object
from stromboli.embedded.store import Record, Store

from .messages import Outcome, Request, WatchResponse, json_response
from .options import flag, number
from .renderer import Renderer
from .routes import Route
from .selection import Selection
from .watch import Watch

SHORTEST_WATCH = 1800.0  # seconds; the longest is twice as long


class _Continuation(msgspec.Struct):
    """The token of the next page: as of which version, and after which object."""

    rv: int
    start: tuple[str, str]
    v: str = "meta.k8s.io/v1"


class Reader:
    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random

    def get(self, route: Route, request: Request, now: float) -> Outcome:
        renderer = Renderer(route.type, request, now)
        self._check_not_future(request.query.get("resourceVersion", ""))
        record = self._store.get(route.key)
        if record is None:
            raise not_found(route.type.resource, route.name)
        return json_response(renderer.one(record))

    def list(self, route: Route, request: Request, now: float) -> Outcome:
        query = request.query
        renderer = Renderer(route.type, request, now)
        selection = Selection(route, query)
        limit = max(number(query, "limit") or 0, 0)
        number(query, "timeoutSeconds")  # no list takes long, but what is not a number is refused
        records, version = self._records_of(route, query)
        chosen = [record for record in records if selection.selects(record)]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if limit and len(chosen) > limit:
            last = chosen[limit - 1].key
            token = msgspec.json.encode(_Continuation(version, (last.namespace, last.name)))
            metadata["continue"] = base64.urlsafe_b64encode(token).decode()
            if not selection.is_restricted:
                metadata["remainingItemCount"] = len(chosen) - limit
            chosen = chosen[:limit]
        return json_response(renderer.many(chosen, metadata))

    def _records_of(self, route: Route, query: Mapping[str, str]) -> tuple[Sequence[Record], int]:
        resource, namespace = route.type.resource, route.namespace
        token = query.get("continue", "")
        wanted = query.get("resourceVersion", "")
        match = query.get("resourceVersionMatch", "")
        _check_match(wanted, match, token, flag(query, "watch"))
        if token:
            if wanted not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            continuation = _read_token(token)
            records = self._store.list_at(resource, continuation.rv, namespace)
            if records is None or continuation.rv > self._store.version:
                raise expired(
                    "The provided continue parameter is too old to display a consistent list result. You must start a "
                    "new list without the continue parameter."
                )
            after = tuple(continuation.start)
            return [one for one in records if (one.key.namespace, one.key.name) > after], continuation.rv
        version = self._check_not_future(wanted)
        if match == "Exact" and version:
            found = self._store.list_at(resource, version, namespace)
            if found is None:
                raise expired(f"The resourceVersion for the provided list is too old: {version}")
            return found, version
        return self._store.list(resource, namespace), self._store.version

    def _check_not_future(self, text: str) -> int:
        version = _version(text)
        if version > self._store.version:
            raise timeout(f"Timeout: Too large resource version: {version}, current: {self._store.version}")
        return version

    # -- watches ------------------------------------------------------------------------------------------------------

    def watch(self, route: Route, request: Request, now: float) -> Outcome:
        query = request.query
        renderer = Renderer(route.type, request, now)
        selection = Selection(route, query)
        wanted = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents")
        if initial is None and query.get("resourceVersionMatch"):
            problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise invalid_object("meta.k8s.io", "ListOptions", "", [forbidden("resourceVersionMatch", problem)])
        sends_initial = flag(query, "sendInitialEvents") if initial is not None else wanted in ("", "0")
        if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
            problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise invalid_object("meta.k8s.io", "ListOptions", "", [forbidden("resourceVersionMatch", problem)])
        version = self._check_not_future(wanted)
        bookmarks = flag(query, "allowWatchBookmarks")
        start = self._store.version if sends_initial or wanted in ("", "0") else version
        watch = Watch(self._store, renderer, selection, start, bookmarks=bookmarks)
        if sends_initial:
            records = self._store.list(route.type.resource, route.namespace)
            watch.start_with(records, mark_end=initial is not None and bookmarks)
        seconds = number(query, "timeoutSeconds")
        lasting = float(seconds) if seconds and seconds > 0 else SHORTEST_WATCH * (1 + self._random.random())
        return WatchResponse(watch, min(lasting, 1e6))


def _version(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise bad_request(f'Invalid value: "{text[:50]}": strconv.ParseUint: parsing "{text[:50]}": invalid syntax')
    return int(text)


def _check_match(wanted: str, match: str, token: str, watching: bool) -> None:
    if not match or watching:
        return
    problem = ""
    if token:
        problem = "resourceVersionMatch is forbidden when continue is provided"
    elif not wanted:
        problem = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match not in ("Exact", "NotOlderThan"):
        problem = "supported values: Exact, NotOlderThan"
    elif match == "Exact" and wanted == "0":
        problem = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if problem:
        raise invalid_object("meta.k8s.io", "ListOptions", "", [forbidden("resourceVersionMatch", problem)])


def _read_token(token: str) -> _Continuation:
    try:
        return plain_json.decode(base64.urlsafe_b64decode(token.encode()), type=_Continuation)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise bad_request("continue key is not valid: the token cannot be read") from None
