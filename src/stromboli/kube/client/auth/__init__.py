"""How to reach an API server and as whom: kubeconfig files, the service account of a pod, tokens, exec plugins, TLS."""

from .client_config import ClientConfig
from .credentials import Credentials, Identity, StaticCredentials, TokenFile
from .kubeconfig import from_kubeconfig, in_cluster, load_client_config

__all__ = [
    "ClientConfig",
    "Credentials",
    "Identity",
    "StaticCredentials",
    "TokenFile",
    "from_kubeconfig",
    "in_cluster",
    "load_client_config",
]
