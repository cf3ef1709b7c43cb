"""Deletions: at once, with a grace period, or after finalizers have done their work."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.embedded.admission import Admission, Review
from stromboli.embedded.kinds import Object, ResourceType
from stromboli.embedded.status import conflict, not_found, success
from stromboli.embedded.store import ObjectKey, Record, Store

from .content import read_body
from .messages import Outcome, Request, json_response
from .options import DeleteOptions, delete_options
from .renderer import Renderer
from .routes import Route
from .selection import Selection
from .writer import Writer, is_finished

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"


class Deleted(NamedTuple):
    answer: Any
    status: int
    warnings: tuple[str, ...] = ()


class Deleter:
    def __init__(self, store: Store, writer: Writer, admission: Admission) -> None:
        self._store = store
        self._writer = writer
        self._admission = admission

    def handle(self, route: Route, request: Request, now: float) -> Outcome:
        options = self._options(request)
        record = self._store.get(route.key)
        if record is None:
            raise not_found(route.type.resource, route.name)
        return json_response(*self.delete(route.type, record, options, now))

    def collection(self, route: Route, request: Request, now: float) -> Outcome:
        renderer = Renderer(route.type, request, now)
        selection = Selection(route, request.query)
        options = self._options(request)
        records = self._store.list(route.type.resource, route.namespace)
        chosen = [record for record in records if selection.selects(record)]
        for record in chosen:
            self.delete(route.type, record, options, now)
        return json_response(renderer.many(chosen, {"resourceVersion": str(self._store.version)}))

    @staticmethod
    def _options(request: Request) -> DeleteOptions:
        return delete_options(read_body(request) if request.body else None, request.query, request.user)

    def _admit(self, type: ResourceType, record: Record, options: DeleteOptions) -> tuple[str, ...]:
        """Warnings of admission policies. Raises a StatusError to keep the object."""
        if not self._admission.validates:
            return ()
        key, old = record.key, record.value() | {"apiVersion": type.api_version}
        review = Review(
            operation="DELETE", type=type, namespace=key.namespace, name=key.name, user=options.user,
            dry_run=options.dry_run, old=old,
        )  # fmt: skip
        return tuple(self._admission.validate(review))

    def delete(
        self, type: ResourceType, record: Record, options: DeleteOptions, now: float, *, is_eviction: bool = False
    ) -> Deleted:
        """Delete an object, or begin to. Policies have been asked about an eviction, and are not asked again."""
        self._check_preconditions(type, record, options)
        type.strategy.may_delete(record, self._writer.context(now))
        warnings = () if is_eviction else self._admit(type, record, options)
        value = record.value()
        before = record.value()
        self._set_finalizers(type, value, options)
        self._begin(type, value, options, now)
        if is_finished(value):
            if not options.dry_run:
                record = self._store.delete(record.key, value)
            if type.strategy.returns_deleted:
                return Deleted(record.data if not options.dry_run else value, 200, warnings)
            return Deleted(success(type.resource, record.key.name, record.metadata.uid), 200, warnings)
        if value != before and not options.dry_run:
            record = self._store.put(record.key, value)
        status = 202 if options.orphan is False else 200
        return Deleted(record.data if not options.dry_run else value, status, warnings)

    def _check_preconditions(self, type: ResourceType, record: Record, options: DeleteOptions) -> None:
        pairs = (("UID", options.uid, record.metadata.uid), ("ResourceVersion", options.version, str(record.version)))
        for what, wanted, found in pairs:
            if wanted and wanted != found:
                problem = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                raise conflict(type.resource, record.key.name, problem)

    def _set_finalizers(self, type: ResourceType, value: Object, options: DeleteOptions) -> None:
        """Note in the object what is to become of those that depend on it."""
        propagation = options.propagation
        if not propagation and options.orphan is not None:
            propagation = "Orphan" if options.orphan else "Background"
        finalizers = list(value["metadata"].get("finalizers") or [])
        if not propagation:
            kept = any(one in finalizers for one in (ORPHAN, FOREGROUND))
            propagation = "" if kept else type.strategy.default_propagation
        if propagation:
            finalizers = [one for one in finalizers if one not in (ORPHAN, FOREGROUND)]
        if propagation in ("Orphan", "Foreground") and (
            propagation == "Foreground" or self._store.dependents(value["metadata"]["uid"], 1)
        ):
            finalizers.append(ORPHAN if propagation == "Orphan" else FOREGROUND)
        value["metadata"].pop("finalizers", None)
        if finalizers:
            value["metadata"]["finalizers"] = finalizers

    def _begin(self, type: ResourceType, value: Object, options: DeleteOptions, now: float) -> None:
        metadata = value["metadata"]
        grace = type.strategy.grace_seconds(value, options.grace_seconds) or 0
        if metadata.get("deletionTimestamp") is not None:
            # Again: a deletion may be made to end earlier, never later.
            before = metadata.get("deletionGracePeriodSeconds") or 0
            if grace >= before or options.grace_seconds is None:
                return
            started = parse_timestamp(metadata["deletionTimestamp"]) - before
            metadata["deletionTimestamp"] = format_timestamp(int(max(started + grace, 0)))
            metadata["deletionGracePeriodSeconds"] = grace
            return
        metadata["deletionTimestamp"] = format_timestamp(int(now) + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if type.strategy.counts_generations and not is_finished(value):
            metadata["generation"] = metadata.get("generation", 0) + 1
        type.strategy.before_graceful_deletion(value)

    def finish(self, key: ObjectKey, finalizer: str) -> None:
        """Take a finalizer from an object, and delete the object if it was the last thing that kept it."""
        record = self._store.get(key)
        if record is None or finalizer not in record.metadata.finalizers:
            return
        value = record.value()
        rest = [one for one in value["metadata"]["finalizers"] if one != finalizer]
        value["metadata"].pop("finalizers")
        if rest:
            value["metadata"]["finalizers"] = rest
        if is_finished(value):
            self._store.delete(key, value)
        else:
            self._store.put(key, value)
