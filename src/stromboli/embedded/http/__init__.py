"""Sockets, TLS and tokens around the server."""

from .certificates import ServerIdentity, server_identity
from .http_server import HttpServer, LogSource, NoLogs
from .kubeconfig import load_token, write_kubeconfig
from .service import Service

__all__ = [
    "HttpServer",
    "LogSource",
    "NoLogs",
    "ServerIdentity",
    "Service",
    "load_token",
    "server_identity",
    "write_kubeconfig",
]
