"""Sockets, TLS and tokens around the server."""

from .certificates import ServerIdentity, server_identity
from .http_server import HttpServer, LogSource, NoLogs
from .kubeconfig import load_token, write_kubeconfig

__all__ = [
    "HttpServer",
    "LogSource",
    "NoLogs",
    "ServerIdentity",
    "load_token",
    "server_identity",
    "write_kubeconfig",
]
