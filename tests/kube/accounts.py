"""The service accounts of deploy/: their tokens, and processes that run with them."""

from __future__ import annotations

import json

from kube.client import Client
from kube.cluster import Cluster, Program
from kube.rbac import NAMESPACE
from stromboli.kube.runtime.process import lease_name


def token_of(client: Client, account: str) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token: str = client.create(path, request)["status"]["token"]
    return token


def start_process(cluster: Cluster, command: str, *arguments: str) -> Program:
    """A process as deploy/ runs it: with the token of its account, and its lease beside it."""
    account = f"stromboli-{command}"
    # The story's scheduler has a name of its own, and so has its lease.
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/{account}"
    rules = cluster.admin.get(role)["rules"]
    rules[1]["resourceNames"] = [account, lease_name(command, cluster.name)]
    cluster.admin.patch(role, {"rules": rules})
    content = json.loads(cluster.server.kubeconfig.read_text(encoding="utf-8"))
    content["users"][0]["user"] = {"token": token_of(cluster.admin, account)}
    kubeconfig = cluster.folder / f"{account}.kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(content), encoding="utf-8")
    options = ["--scheduler-name", cluster.name, "--lease-namespace", NAMESPACE, "--probe-port", "0"]
    return cluster.start(command, "--kubeconfig", str(kubeconfig), "--log-format", "json", *options, *arguments)
