"""All admission policies, applied to a request.

mutate    before an object is validated: each policy after the other, by name
validate  when all else is in order: every policy, and the first denial is the answer
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from stromboli.embedded.cel import Budget
from stromboli.embedded.kinds import Object, ResourceType
from stromboli.embedded.selectors import matches
from stromboli.embedded.status import StatusError, forbidden
from stromboli.embedded.store import ObjectKey, Store

from .evaluation import Denial, Evaluation, Unevaluated, request_budget
from .matching import Versions, matched_version
from .policies import Binding, Policies, Policy
from .request import Review

_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID: Final = 422

FindKind = Callable[[str, str], ResourceType | None]
Reread = Callable[[Object], Object]
"""Gives an object that was changed the form of its schema again, with defaults. Raises StatusError."""


class Admission:
    def __init__(self, store: Store, *, find_kind: FindKind, versions: Versions) -> None:
        self._store = store
        self._find_kind = find_kind
        self._versions = versions
        self._policies = Policies(store)

    @property
    def validates(self) -> bool:
        return bool(self._policies.validating)

    @property
    def mutates(self) -> bool:
        return bool(self._policies.mutating)

    # -- mutations ----------------------------------------------------------------------------------------------------

    def mutate(self, review: Review, reread: Reread) -> Object:
        """The object as policies change it. Raises StatusError."""
        assert review.object is not None
        if not self.mutates:
            return review.object
        budget, value = request_budget(), review.object
        repeatable: list[tuple[Policy, list[Binding]]] = []
        changed_after: list[tuple[Policy, list[Binding]]] = []
        for policy, bindings in self._policies.mutating:
            changed = self._mutated(policy, bindings, review, value, reread, budget)
            if changed != value:
                changed_after = [*repeatable]
            value = changed
            if policy.again:
                repeatable.append((policy, bindings))
        for policy, bindings in changed_after:
            value = self._mutated(policy, bindings, review, value, reread, budget)
        return value

    def _mutated(
        self, policy: Policy, bindings: list[Binding], review: Review, value: Object, reread: Reread, budget: Budget
    ) -> Object:
        for binding in bindings:
            for version, parameter in self._parameters(policy, binding, replace(review, object=value)):
                try:
                    if isinstance(parameter, Unevaluated):
                        raise parameter
                    seen = self._seen(replace(review, object=value), version, parameter)
                    evaluation = Evaluation(policy, seen, budget)
                    if evaluation.applies():
                        made = evaluation.mutated(seen["object"], review.type.schema)
                        value = reread(made | {"apiVersion": review.type.api_version})
                except Unevaluated as error:
                    if policy.fails:
                        message = _denied(policy, binding, str(error), prefix="policy")
                        raise StatusError(403, "Invalid", message, {"causes": [{"message": message}]}) from None
        return value

    # -- validations --------------------------------------------------------------------------------------------------

    def validate(self, review: Review) -> list[str]:
        """Warnings. Raises StatusError if the request is denied."""
        warnings: list[str] = []
        if not self.validates:
            return warnings
        budget = request_budget()
        for policy, bindings in self._policies.validating:
            for binding in bindings:
                for denial in self._denials(policy, binding, review, budget):
                    if "Warn" in binding.actions:
                        warnings.append(
                            f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                            f"'{binding.name}': {denial.message}"
                        )
                    if "Deny" in binding.actions:
                        message = _denied(policy, binding, denial.message, prefix="ValidatingAdmissionPolicy")
                        raise self._refusal(review, message, denial.reason)
        return list(dict.fromkeys(warnings))

    def _denials(self, policy: Policy, binding: Binding, review: Review, budget: Budget) -> Iterator[Denial]:
        for version, parameter in self._parameters(policy, binding, review):
            try:
                if isinstance(parameter, Unevaluated):
                    raise parameter
                evaluation = Evaluation(policy, self._seen(review, version, parameter), budget)
                if evaluation.applies():
                    yield from evaluation.denials()
            except Unevaluated as error:
                if policy.fails:
                    yield Denial(str(error))

    @staticmethod
    def _refusal(review: Review, message: str, reason: str) -> StatusError:
        refused = forbidden(review.type.resource, review.name or "Unknown", message, [{"message": message}])
        refused.reason, refused.code = reason, _CODES.get(reason, _INVALID)
        return refused

    # -- what expressions see -----------------------------------------------------------------------------------------

    def _parameters(self, policy: Policy, binding: Binding, review: Review) -> Iterator[tuple[str, Any]]:
        """Each parameter that the policy has for the request, with the version in which it sees the object. Nothing if
        it is not about the request; None is the parameter of a policy that has none. An error is one, too."""
        namespace = self._namespace(review)
        version = matched_version(policy.constraints, review, namespace, self._versions)
        if not version or (
            binding.matching is not None and not matched_version(binding.matching, review, namespace, self._versions)
        ):
            return
        reference = binding.parameters
        if policy.problem:
            yield version, Unevaluated(policy.problem)
        elif policy.parameters is None or reference is None:
            yield version, None
        else:
            try:
                for one in self._found(policy.parameters, reference, review):
                    yield version, one
            except Unevaluated as error:
                yield version, error

    def _found(self, kind: Object, reference: Object, review: Review) -> list[Object]:
        """Raises Unevaluated."""
        type = self._find_kind(kind["apiVersion"], kind["kind"])
        if type is None:
            problem = f"paramKind kind `{kind['apiVersion']}, Kind={kind['kind']}` not known"
            raise Unevaluated(f"failed to configure policy: {problem}")
        namespace = ""
        if type.namespaced:
            namespace = reference.get("namespace") or review.namespace
            if not namespace:
                problem = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                raise Unevaluated(f"failed to configure binding: {problem}")
        elif reference.get("namespace"):
            problem = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise Unevaluated(f"failed to configure binding: {problem}")
        if reference.get("name"):
            record = self._store.get(ObjectKey(type.resource, namespace, reference["name"]))
            records = [] if record is None else [record]
        else:
            selector = reference.get("selector")
            records = [
                one for one in self._store.list(type.resource, namespace) if matches(selector, one.metadata.labels)
            ]
        if not records and reference.get("parameterNotFoundAction") == "Deny":
            problem = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise Unevaluated(f"failed to configure binding: {problem}")
        return [record.value() | {"apiVersion": type.api_version} for record in records]

    def _namespace(self, review: Review) -> Object | None:
        if not review.type.namespaced:
            return None
        record = self._store.get(ObjectKey("namespaces", "", review.namespace))
        return None if record is None else record.value()

    def _seen(self, review: Review, version: str, parameter: Object | None) -> dict[str, Any]:
        namespace = self._namespace(review)
        if namespace is not None:
            namespace["metadata"].pop("managedFields", None)
        type = review.type
        api_version = f"{type.group}/{version}" if type.group else version
        seen, old = (
            one if one is None or review.kind is not None else one | {"apiVersion": api_version}
            for one in (review.object, review.old)
        )
        return {
            "object": seen, "oldObject": old, "request": review.shown(version), "params": parameter,
            "namespaceObject": namespace,
        }  # fmt: skip


def _denied(policy: Policy, binding: Binding, message: str, *, prefix: str) -> str:
    return f"{prefix} '{policy.name}' with binding '{binding.name}' denied request: {message}"
