"""Which groups, versions and resources there are: in the old form, a document for each version, and in the new one, two
documents for all.
"""

from __future__ import annotations

from typing import Any, Final

from stromboli.embedded.kinds import ResourceType
from stromboli.embedded.server.catalog import Catalog
from stromboli.embedded.server.content import negotiate
from stromboli.embedded.server.messages import JSON, Request, Response, json_response
from stromboli.embedded.status import unknown_path

VERSION: Final = (1, 36)
"""The Kubernetes version whose API this is like."""

_SHAPE: Final = "APIGroupDiscoveryList"
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


def version_document(release: str) -> dict[str, str]:
    major, minor = VERSION
    return {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.0+stromboli-{release}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def handle_discovery(request: Request, catalog: Catalog) -> Response:
    """Answers /api, /apis and what is below without naming a resource. Raises a StatusError."""
    match request.path.rstrip("/").split("/")[1:]:
        case ["api"]:
            return _aggregated(request, catalog, core=True) or json_response(
                {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            )
        case ["apis"]:
            groups = [_group(group, versions) for group, versions in catalog.versions().items() if group]
            return _aggregated(request, catalog, core=False) or json_response(
                {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            )
        case ["api", "v1"]:
            return json_response(_resource_list("", "v1", catalog))
        case ["apis", group]:
            versions = catalog.versions().get(group)
            if group and versions:
                return json_response({"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)})
        case ["apis", group, version]:
            if group and version in catalog.versions().get(group, ()):
                return json_response(_resource_list(group, version, catalog))
    raise unknown_path()


def _group(group: str, versions: list[str]) -> dict[str, Any]:
    written = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": written, "preferredVersion": written[0]}


def _resource_list(group: str, version: str, catalog: Catalog) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for one in catalog.in_group(group, version):
        entry: dict[str, Any] = {
            "name": one.plural,
            "singularName": one.singular,
            "namespaced": one.namespaced,
            "kind": one.kind,
            "verbs": list(_VERBS),
        }
        if one.short_names:
            entry["shortNames"] = list(one.short_names)
        if one.categories:
            entry["categories"] = list(one.categories)
        resources.append(entry)
        for name, (kind, verbs) in subresources_of(one).items():
            sub_group, _, sub_version = kind[0].rpartition("/")
            resources.append(
                {
                    "name": f"{one.plural}/{name}",
                    "singularName": "",
                    "namespaced": one.namespaced,
                    "group": sub_group,
                    "version": sub_version,
                    "kind": kind[1],
                    "verbs": list(verbs),
                }
            )
    api_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def subresources_of(one: ResourceType) -> dict[str, tuple[tuple[str, str], tuple[str, ...]]]:
    """The subresources of a type: the version and kind of their objects, and their verbs."""
    found: dict[str, tuple[tuple[str, str], tuple[str, ...]]] = {}
    if one.has_status:
        found["status"] = ((one.api_version, one.kind), _STATUS_VERBS)
    if one.scale is not None:
        found["scale"] = (("autoscaling/v1", "Scale"), _STATUS_VERBS)
    if one.resource == "pods":
        found["binding"] = (("v1", "Binding"), ("create",))
        found["eviction"] = (("policy/v1", "Eviction"), ("create",))
        found["log"] = (("v1", "Pod"), ("get",))
    if one.resource == "namespaces":
        found["finalize"] = (("v1", "Namespace"), ("update",))
    return found


def _aggregated(request: Request, catalog: Catalog, *, core: bool) -> Response | None:
    accepted = negotiate(request.headers.get("accept", ""), (_SHAPE,))
    if accepted.shape != _SHAPE or accepted.version not in ("v2", "v2beta1"):
        return None
    items = []
    for group, versions in catalog.versions().items():
        if bool(group) == core:
            continue
        items.append(
            {
                "metadata": {"name": group, "creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_resource(one) for one in catalog.in_group(group, version)],
                        "freshness": "Current",
                    }
                    for version in versions
                ],
            }
        )
    written = {
        "kind": _SHAPE,
        "apiVersion": f"apidiscovery.k8s.io/{accepted.version}",
        "metadata": {},
        "items": items,
    }
    media = f"{JSON};g=apidiscovery.k8s.io;v={accepted.version};as={_SHAPE}"
    return Response(200, json_response(written).body, media)


def _aggregated_resource(one: ResourceType) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": one.plural,
        "responseKind": {"group": one.group, "version": one.version, "kind": one.kind},
        "scope": "Namespaced" if one.namespaced else "Cluster",
        "singularResource": one.singular,
        "verbs": list(_VERBS),
    }
    if one.short_names:
        entry["shortNames"] = list(one.short_names)
    if one.categories:
        entry["categories"] = list(one.categories)
    entry["subresources"] = [
        {"subresource": name, "responseKind": _kind_of(*kind), "verbs": list(verbs)}
        for name, (kind, verbs) in subresources_of(one).items()
    ]
    return entry


def _kind_of(api_version: str, kind: str) -> dict[str, str]:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}
