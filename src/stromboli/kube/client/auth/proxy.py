"""Which proxy a server is reached through, as kubectl decides it.

A `proxy-url` in the kubeconfig comes first. Otherwise HTTPS_PROXY (for http:// servers HTTP_PROXY) names one, unless
NO_PROXY lists the server: by name (a domain stands for its subdomains too), address, network (`10.0.0.0/8`), each with
an optional port, or `*`. Servers on this machine are never reached through a proxy of the environment. The names of the
variables may be in lower case. A proxy that we cannot use is refused, because to go around it may be forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from stromboli.errors import UserError

_PORTS: Final = {"http": 80, "https": 443}


def proxy_for(server: str, configured: str, where: str, environment: Mapping[str, str]) -> str | None:
    """The URL of the proxy; None for a direct connection. `where` names the configured one. Raises UserError."""
    if configured:
        return _usable(configured, where)
    url = urlsplit(server)
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    proxy = _variable(environment, name)
    if not proxy or _is_excepted(url, _variable(environment, "NO_PROXY")):
        return None
    # As curl and kubectl: a proxy without a scheme is an HTTP proxy.
    return _usable(proxy if "://" in proxy else f"http://{proxy}", f"the environment variable {name}")


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.lower()) or "").strip()


def _usable(proxy: str, where: str) -> str:
    """The URL may hold a password, so it is in no message."""
    try:
        url = urlsplit(proxy)
        valid = url.hostname and url.port != 0
    except ValueError:
        valid = False
    if not valid or url.scheme not in _PORTS:
        raise UserError(f"{where} must be an http:// or https:// URL; other proxies, such as socks5, are not supported")
    return proxy


def _is_excepted(url: SplitResult, no_proxy: str) -> bool:
    host = (url.hostname or "").rstrip(".")
    port = url.port or _PORTS.get(url.scheme, 0)
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            network = ip_network(entry, strict=False)
        except ValueError:
            return False
        return address is not None and address.version == network.version and address in network
    name, wanted = _split_port(entry)
    if wanted is not None and wanted != port:
        return False
    if address is not None:
        return _address(name) == address
    # "example.org" stands for itself and its subdomains, ".example.org" (or "*.example.org") for the latter only.
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int | None]:
    if _address(entry) is not None:
        return entry, None
    name, separator, port = entry.rpartition(":")
    if not separator or not port.isdigit():
        return entry.strip("[]"), None
    return name.strip("[]"), int(port)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None
