"""The names of pods and services, and which addresses they have: what a cluster's DNS would answer.

    <hostname>.<subdomain>     a pod, if its namespace has a Service of the subdomain's name; jobs' plugins make those
    <service>                  the service's own address, where we forward its ports; without cluster IP, its pods'

Both also with `.<namespace>`, `.svc` and `.svc.cluster.local`. A pod reads them in its /etc/hosts, and itself by its
plain name. The names of pods are there as soon as the pods have a node, so that members of a gang find each other when
they start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import field as struct_field

from stromboli.api import ApiObject, ApiStruct, Pod
from stromboli.kube.client import Resource

from .addresses import LOCALHOST

_DOMAIN: Final = "svc.cluster.local"


class ServicePort(ApiStruct):
    name: str = ""
    port: int = 0
    target_port: int | str | None = None
    protocol: str = ""


class ServiceSpec(ApiStruct):
    selector: dict[str, str] = struct_field(default_factory=dict)
    ports: list[ServicePort] = struct_field(default_factory=list)
    cluster_ip: str = struct_field(default="", name="clusterIP")
    type: str = ""
    external_name: str = ""
    publish_not_ready_addresses: bool = False


class Service(ApiObject):
    api_version: str = "v1"
    kind: str = "Service"
    spec: ServiceSpec = struct_field(default_factory=ServiceSpec)


SERVICES: Final[Resource[Any]] = Resource(Service, "v1", "services", namespaced=True, has_status=True)


@dataclass(frozen=True, slots=True)
class Names:
    """Of one moment."""

    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By namespace: lines of a hosts file with the names that are short there."""
    everywhere: Sequence[str] = ()
    """Lines with the names that are the same in all namespaces."""
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By namespace: the environment variables about services."""

    def hosts(self, pod: Mapping[str, Any], address: str, host_name: str) -> str:
        """The hosts file of a pod."""
        namespace = pod["metadata"].get("namespace", "default")
        aliases = [
            f"{one['ip']} {' '.join(one.get('hostnames') or ())}" for one in pod["spec"].get("hostAliases") or ()
        ]
        lines = [
            f"{LOCALHOST} localhost",
            "::1 localhost ip6-localhost ip6-loopback",
            f"{address} {host_name}",
            *aliases,
            *self.lines.get(namespace, ()),
            *self.everywhere,
        ]
        return "\n".join(lines) + "\n"


def names_of(pods: Iterable[tuple[Pod, str]], services: Iterable[Service], forwarded: Mapping[str, str]) -> Names:
    """`pods`: each with its address. `forwarded`: the addresses of services at which we forward, by uid."""
    by_namespace: dict[str, list[tuple[Pod, str]]] = {}
    for pod, address in pods:
        by_namespace.setdefault(pod.metadata.namespace, []).append((pod, address))
    lines: dict[str, list[str]] = {}
    everywhere: list[str] = []
    variables: dict[str, dict[str, str]] = {}
    for service in sorted(services, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        name, namespace = service.metadata.name, service.metadata.namespace
        beside = by_namespace.get(namespace, [])
        own = forwarded.get(service.metadata.uid)
        for address in [own] if own else sorted(address for _, address in endpoints(service, beside)):
            lines.setdefault(namespace, []).append(f"{address} {name}")
            everywhere.append(f"{address} {_long(name, namespace)}")
        for pod, address in sorted(beside, key=lambda one: one[0].metadata.name):
            if pod.spec.subdomain == name:
                full = f"{pod.spec.hostname or pod.metadata.name}.{name}"
                lines.setdefault(namespace, []).append(f"{address} {full}")
                everywhere.append(f"{address} {_long(full, namespace)}")
        if own and service.spec.ports:
            variables.setdefault(namespace, {}).update(_variables(service, own))
    return Names(lines, everywhere, variables)


def endpoints(service: Service, pods: Iterable[tuple[Pod, str]]) -> Iterator[tuple[Pod, str]]:
    """The pods behind a service: those that match its selector and are ready."""
    selector = service.spec.selector
    for pod, address in pods:
        if not selector or any(pod.metadata.labels.get(name) != value for name, value in selector.items()):
            continue
        if service.spec.publish_not_ready_addresses or _is_ready(pod):
            yield pod, address


def _is_ready(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is not None or pod.status.phase != "Running":
        return False
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def _long(name: str, namespace: str) -> str:
    return f"{name}.{namespace} {name}.{namespace}.svc {name}.{namespace}.{_DOMAIN}"


def _variables(service: Service, address: str) -> Iterator[tuple[str, str]]:
    prefix = service.metadata.name.upper().replace("-", "_")
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(service.spec.ports[0].port)
    for port in service.spec.ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{port.name.upper().replace('-', '_')}", str(port.port)
