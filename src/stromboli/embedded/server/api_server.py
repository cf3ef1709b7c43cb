"""The API server without a network: a request and a time in, a response or a watch out.

All state is in the store. The only other input is a source of random numbers, for uids and generated names; with a
fixed seed, equal requests at equal times lead to equal objects, byte for byte.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from random import Random
from typing import Final

from stromboli import __version__
from stromboli.embedded.admission import Admission
from stromboli.embedded.kinds import dig
from stromboli.embedded.status import StatusError, bad_request, method_not_allowed, not_found, not_stored, unknown_path
from stromboli.embedded.store import ObjectKey, StorageError, Store
from stromboli.listeners import RefusalLog

from .catalog import Catalog
from .content import read_body
from .deleter import Deleter
from .documents import OpenApi, handle_discovery, version_document
from .messages import Outcome, Request, Response, error_response, json_response
from .options import flag, write_options
from .patcher import Patcher
from .reader import Reader
from .renderer import Renderer
from .routes import Route, find_route
from .subresources import Subresources
from .writer import Writer, Written

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_MANAGER: Final = "stromboli-apiserver"
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")

_log = logging.getLogger("stromboli.embedded")

Handler = Callable[[Route, Request, float], Outcome]


class ApiServer:
    def __init__(self, store: Store, *, random: Random | None = None, now: float, scheduler_name: str = "") -> None:
        """`scheduler_name`: of the only scheduler there is. It gets the pods for the default scheduler as well."""
        random = random or Random()
        self.store = store
        self.catalog = Catalog(store)
        self.admission = Admission(store, find_kind=self.catalog.by_kind, versions=self.catalog.versions_of)
        self.writer = Writer(store, self.admission, random, scheduler_name)
        self.deleter = Deleter(store, self.writer, self.admission)
        self._reader = Reader(store, random)
        self._patcher = Patcher(store, self.writer)
        self._subresources = Subresources(store, self.writer, self.deleter, self.admission)
        self._openapi = OpenApi(self.catalog)
        self._errors = RefusalLog("api-server")
        self._handlers: dict[tuple[str, str], Handler] = self._subresource_handlers()
        self._create_system_objects(now)

    def handle(self, request: Request, now: float) -> Outcome:
        """Never raises: whatever goes wrong is a Status."""
        try:
            return self._handle(request, now)
        except StatusError as error:
            return error_response(error)
        except StorageError as error:
            return error_response(not_stored(str(error)))
        except RecursionError:
            return error_response(bad_request("the request is nested too deeply"))
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._errors.note(f"an error of ours: {type(error).__name__} in {frame.name}, line {frame.lineno}")
            _log.debug("a request failed", exc_info=True)
            return error_response(StatusError(500, "InternalError", "Internal error occurred; the server's log has it"))

    def _handle(self, request: Request, now: float) -> Outcome:
        path = request.path
        if request.method not in _METHODS:
            raise method_not_allowed()
        first = path.split("/", 2)[1] if path.startswith("/") else ""
        if first in ("api", "apis"):
            if path.rstrip("/").count("/") <= (2 if first == "api" else 3):
                if request.method != "GET":
                    raise method_not_allowed()
                return handle_discovery(request, self.catalog)
            return self._handle_resource(request, now)
        if request.method != "GET":
            raise method_not_allowed() if first in ("version", "openapi", "healthz") else unknown_path()
        if path in ("/healthz", "/livez", "/readyz"):
            return Response(200, b"ok", "text/plain")
        if path == "/version":
            return json_response(version_document(__version__))
        if first == "openapi":
            return self._openapi.handle(request)
        raise unknown_path()

    def _handle_resource(self, request: Request, now: float) -> Outcome:
        if request.path.endswith("/bindings") and request.method == "POST":
            return self._handle_bindings(request, now)
        route = find_route(request.path, self.catalog)
        if route.subresource:
            handler = self._handlers.get((request.method, route.subresource))
            if handler is None or not self._has_subresource(route):
                raise unknown_path() if not self._has_subresource(route) else method_not_allowed()
            return handler(route, request, now)
        match request.method, bool(route.name):
            case "GET", True:
                if flag(request.query, "watch"):
                    return self._reader.watch(route, request, now)
                return self._reader.get(route, request, now)
            case "GET", False:
                if flag(request.query, "watch"):
                    return self._reader.watch(route, request, now)
                return self._reader.list(route, request, now)
            case "POST", False:
                return self._create(route, request, now)
            case "PUT", True:
                return self._update(route, request, now)
            case "PATCH", True:
                return self._patch(route, request, now)
            case "DELETE", True:
                return self.deleter.handle(route, request, now)
            case "DELETE", False if route.namespace or not route.type.namespaced:
                return self.deleter.collection(route, request, now)
        raise method_not_allowed()

    def _handle_bindings(self, request: Request, now: float) -> Outcome:
        """The older form of a binding, a collection of its own."""
        route = find_route(request.path.removesuffix("/bindings") + "/pods", self.catalog)
        if not route.namespace or route.type.resource != "pods":
            raise unknown_path()
        return self._subresources.bind(route, request, now)

    # -- subresources -------------------------------------------------------------------------------------------------

    def _subresource_handlers(self) -> dict[tuple[str, str], Handler]:
        sub = self._subresources
        return {
            ("GET", "status"): self._reader.get,
            ("PUT", "status"): self._update,
            ("PATCH", "status"): self._patch,
            ("GET", "scale"): sub.scale,
            ("PUT", "scale"): sub.scale,
            ("PATCH", "scale"): sub.scale,
            ("POST", "binding"): sub.bind,
            ("POST", "eviction"): sub.evict,
            ("PUT", "finalize"): sub.finalize,
            ("GET", "log"): sub.log,
        }

    @staticmethod
    def _has_subresource(route: Route) -> bool:
        match route.subresource:
            case "status":
                return route.type.has_status
            case "scale":
                return route.type.scale is not None
            case "binding" | "eviction" | "log":
                return route.type.resource == "pods"
            case "finalize":
                return route.type.resource == "namespaces"
        return False

    # -- writes -------------------------------------------------------------------------------------------------------

    def _create(self, route: Route, request: Request, now: float) -> Outcome:
        options = write_options(request, "CreateOptions")
        body = read_body(request)
        if route.type.namespaced and not route.namespace:
            raise method_not_allowed()
        value, warnings = self.writer.read(route.type, body, options)
        written = self.writer.create(route, value, options, now)
        return self._answer(route, request, written, now, warnings)

    def _update(self, route: Route, request: Request, now: float) -> Outcome:
        options = write_options(request, "UpdateOptions")
        value, warnings = self.writer.read(route.type, read_body(request), options)
        record = self.store.get(route.key)
        if record is None:
            if not route.type.strategy.create_on_update or route.subresource:
                raise not_found(route.type.resource, route.name)
            if dig(value, "metadata", "name", default=route.name) != route.name:
                raise bad_request("the name of the object does not match the name on the URL")
            value["metadata"]["name"] = route.name
            return self._answer(route, request, self.writer.create(route, value, options, now), now, warnings)
        return self._answer(route, request, self.writer.update(route, record, value, options, now), now, warnings)

    def _patch(self, route: Route, request: Request, now: float) -> Outcome:
        return self._answer(route, request, self._patcher.patch(route, request, now), now, ())

    def _answer(
        self, route: Route, request: Request, written: Written, now: float, warnings: tuple[str, ...]
    ) -> Outcome:
        renderer = Renderer(route.type, request, now)
        body = written.data()
        if renderer.shape and written.record is not None:
            body = renderer.one(written.record)
        elif written.record is not None:
            body = renderer.data(written.record)
        return json_response(body, 201 if written.created else 200, (*warnings, *written.warnings))

    # -- start --------------------------------------------------------------------------------------------------------

    def _create_system_objects(self, now: float) -> None:
        """What a cluster has from the beginning."""
        query = {"fieldManager": _MANAGER}
        for name in NAMESPACES:
            if self.store.get(ObjectKey("namespaces", "", name)) is None:
                self._must_create("/api/v1/namespaces", {"metadata": {"name": name}}, query, now)
        for name, value in _PRIORITIES.items():
            if self.store.get(ObjectKey("priorityclasses.scheduling.k8s.io", "", name)) is None:
                body = {"metadata": {"name": name}, "value": value}
                self._must_create("/apis/scheduling.k8s.io/v1/priorityclasses", body, query, now)

    def _must_create(self, path: str, body: dict[str, object], query: dict[str, str], now: float) -> None:
        outcome = self.handle(Request("POST", path, query, {}, json_response(body).body), now)
        if outcome.status != 201:
            raise RuntimeError(f"cannot create what every cluster has: {path}: {outcome}")
