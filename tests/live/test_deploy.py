"""deploy/ is consistent: its manifests, the command line, the image, the configuration, the metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from documents.pages import table, text_of
from live.kustomize import DEPLOY, WAYS, Object, apply_component, containers, documents, render
from stromboli import __version__
from stromboli.console.main import run
from stromboli.descheduling import Registry as Plugins
from stromboli.kube import runtime
from stromboli.kube.commands import processes as commands
from stromboli.kube.commands.descheduler import descheduler
from stromboli.kube.runtime.process import LEASE_NAMESPACE, ProcessOptions, lease_name
from stromboli.scheduling.registry import Registry

PROJECT = DEPLOY.parent
CONTAINERFILE = (PROJECT / "Containerfile").read_text(encoding="utf-8")
NAMESPACE = "stromboli-system"
PAGE = "docs/kubernetes.md"

# Of each, the first and the last Kubernetes that has it, as far as they are known.
SERVED = {
    "v1": (20, 99),
    "apps/v1": (20, 99),
    "rbac.authorization.k8s.io/v1": (20, 99),
    "apiextensions.k8s.io/v1": (20, 99),
    "admissionregistration.k8s.io/v1": (30, 99),  # the policies; webhooks had it before
    "networking.k8s.io/v1": (20, 99),
    "policy/v1": (21, 99),
    "policy/v1beta1": (20, 24),
    "monitoring.coreos.com/v1": (20, 99),
}


VERSIONS = {"overlays/before-1.25": (20, 24), "overlays/since-1.30": (30, 36), "overlays/since-1.36": (36, 36)}
"""The minor versions of Kubernetes that each way is for; others are for 1.25 and later."""


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def objects(way: str) -> list[Object]:
    return render(WAYS[way])


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def _source(module: str) -> str:
    return (PROJECT / "src/stromboli" / module).read_text(encoding="utf-8")


def name_of(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


def resolve_targets(obj: Object) -> tuple[str, str, str, str]:
    return obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace", ""), name_of(obj)


# -- as a whole -------------------------------------------------------------------------------------------------


def kubectl_with_kustomize() -> str | None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return None
    said = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    version = json.loads(said.stdout or "{}").get("clientVersion", {})
    minor = int(re.sub(r"\D", "", version.get("minor", "")) or 0)
    return kubectl if minor >= 21 else None


def test_kubectl_renders_the_same(way: str, objects: list[Object]) -> None:
    kubectl = kubectl_with_kustomize()
    if kubectl is None:
        pytest.skip("there is no kubectl of 1.21 or later to compare with")
    done = subprocess.run([kubectl, "kustomize", WAYS[way]], capture_output=True, text=True, check=True)
    theirs = documents(done.stdout)
    assert done.stderr == ""
    assert {resolve_targets(one): one for one in theirs} == {resolve_targets(one): one for one in objects}


def test_no_object_is_defined_twice(objects: list[Object]) -> None:
    assert len({resolve_targets(one) for one in objects}) == len(objects)


def test_servers_know_the_versions(way: str, objects: list[Object]) -> None:
    first, last = VERSIONS.get(way, (25, 36))
    for obj in objects:
        since, until = SERVED[obj["apiVersion"]]
        assert since <= first, f"{name_of(obj)}: {obj['apiVersion']} is not there yet"
        assert until >= last, f"{name_of(obj)}: {obj['apiVersion']} is not there any more"


def test_everything_is_in_the_namespace_that_is_made(objects: list[Object]) -> None:
    assert [name_of(one) for one in of_kind(objects, "Namespace")] == [NAMESPACE]
    for obj in objects:
        assert obj["metadata"].get("namespace", NAMESPACE) == NAMESPACE


def test_the_volcano_overlay_does_not_change_its_definitions() -> None:
    objects = render(WAYS["overlays/beside-volcano"])
    assert [name_of(one) for one in of_kind(objects, "CustomResourceDefinition")] == [
        "reservations.scheduling.volcano.sh"
    ]
    [container] = containers(objects)
    assert "--scheduler-name=stromboli" in container["args"]


# -- parts that refer to each other -----------------------------------------------------------------------------


def test_referenced_accounts_and_roles_exist(objects: list[Object]) -> None:
    there = {(one["kind"], name_of(one)) for one in objects}
    for binding in of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding"):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in there
        for subject in binding["subjects"]:
            assert subject["namespace"] == NAMESPACE
            assert (subject["kind"], subject["name"]) in there
    for deployment in of_kind(objects, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert ("ServiceAccount", spec["serviceAccountName"]) in there
        for volume in spec["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there


def test_each_account_has_the_roles_of_what_runs_under_it(objects: list[Object]) -> None:
    given: dict[str, set[str]] = {name_of(one): set() for one in of_kind(objects, "ServiceAccount")}
    for binding in of_kind(objects, "ClusterRoleBinding"):
        for subject in binding["subjects"]:
            given[subject["name"]].add(binding["roleRef"]["name"])
    scheduler, controllers = "stromboli-scheduler", "stromboli-controllers"
    roles = {scheduler: {scheduler}, controllers: {controllers}, "stromboli": {scheduler, controllers}}
    roles["stromboli-descheduler"] = {"stromboli-descheduler"}
    assert given == {account: roles[account] for account in given}


def test_secrets_and_config_maps_only_with_the_component() -> None:
    def resources(way: str) -> set[str]:
        [role] = [one for one in of_kind(render(WAYS[way]), "ClusterRole") if name_of(one) == "stromboli-controllers"]
        return {resource for rule in role["rules"] for resource in rule["resources"]}

    added = {"configmaps", "secrets", "services", "networkpolicies"}
    assert not resources(".") & added
    assert resources("overlays/job-plugins") - resources(".") == added


def test_the_page_may_read_events_with_its_component() -> None:
    objects = render(WAYS["overlays/single-replica"])
    apply_component(DEPLOY / "components" / "page", objects)
    [role] = [one for one in of_kind(objects, "ClusterRole") if name_of(one) == "stromboli-scheduler"]
    may = {verb for rule in role["rules"] if "events" in rule["resources"] for verb in rule["verbs"]}
    assert may == {"create", "patch", "list", "watch"}
    [container] = containers(objects)
    assert container["args"][-2:] == ["--web", "--web-port=8090"]


def test_selectors_find_the_pods(objects: list[Object]) -> None:
    pods = {name_of(one): one["spec"]["template"]["metadata"]["labels"] for one in of_kind(objects, "Deployment")}
    for deployment in of_kind(objects, "Deployment"):
        chosen = deployment["spec"]["selector"]["matchLabels"]
        assert [name for name, labels in pods.items() if chosen.items() <= labels.items()] == [name_of(deployment)]
        for constraint in deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
            assert constraint["labelSelector"]["matchLabels"] == chosen
    for budget in of_kind(objects, "PodDisruptionBudget"):
        chosen = budget["spec"]["selector"]["matchLabels"]
        assert [name for name, labels in pods.items() if chosen.items() <= labels.items()] == [name_of(budget)]
        assert budget["spec"]["minAvailable"] < 2, "a node could never be drained"


def test_the_monitor_finds_the_service_and_the_service_all_pods() -> None:
    objects = render(WAYS["overlays/monitoring"])
    [service], [monitor] = of_kind(objects, "Service"), of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [port] = service["spec"]["ports"]
    assert monitor["spec"]["endpoints"][0]["port"] == port["name"]
    for deployment in of_kind(objects, "Deployment"):
        template = deployment["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        [offered] = template["spec"]["containers"][0]["ports"]
        assert (offered["name"], offered["containerPort"]) == (port["targetPort"], port["port"])


def test_only_who_reads_metrics_can_connect(objects: list[Object]) -> None:
    """All our pods are closed, but for the port of probes and metrics, and that for chosen namespaces only."""
    [policy] = of_kind(objects, "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    [rule] = policy["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]
    [opened] = rule["ports"]
    for deployment in of_kind(objects, "Deployment"):
        template = deployment["spec"]["template"]
        assert deployment["metadata"]["namespace"] == policy["metadata"]["namespace"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        [offered] = template["spec"]["containers"][0]["ports"]
        assert opened == {"port": offered["name"], "protocol": "TCP"}


METRICS = ("runtime/metrics.py", "scheduler/metrics.py", "scheduler/state_metrics.py", "controllers/metrics.py")


def test_alerts_use_metrics_that_exist() -> None:
    known = set(re.findall(r'"((?:stromboli|volcano)_\w+)"', "".join(_source(f"kube/{name}") for name in METRICS)))
    [alerts] = of_kind(render(WAYS["overlays/monitoring"]), "PrometheusRule")
    for rule in alerts["spec"]["groups"][0]["rules"]:
        asked = set(re.findall(r"\b(?:stromboli|volcano)_\w+", rule["expr"]))
        assert asked
        assert asked <= known, rule["alert"]


# -- processes --------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ProcessOptions]]:
    """What the command line would have started."""
    processes: list[tuple[str, ProcessOptions]] = []

    def record(name: str, options: ProcessOptions, components: Callable[..., Any]) -> None:
        processes.append((name, options))

    monkeypatch.setattr(runtime, "run_process", record)
    return processes


def test_the_command_line_accepts_the_arguments_of_containers(
    objects: list[Object], started: list[tuple[str, ProcessOptions]]
) -> None:
    for deployment in of_kind(objects, "Deployment"):
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert run(container["args"]) == 0
        name, options = started.pop()
        assert name == name_of(deployment) == deployment["spec"]["template"]["spec"]["serviceAccountName"]
        # The account may take the leases of its components, where they are by default, and no others.
        command = container["args"][0]
        components = ("scheduler", "controllers") if command == "run" else (command,)
        leases = [lease_name(component, options.scheduler_name) for component in components]
        [role] = [one for one in of_kind(objects, "Role") if name_of(one) == name]
        assert [rule.get("resourceNames") for rule in role["rules"]] == [None, leases]
        assert role["metadata"]["namespace"] == options.lease_namespace == LEASE_NAMESPACE
        assert options.leader_elect
        assert options.probe_host == "0.0.0.0"
        assert options.metrics_without_token, "a network policy says who can connect"
        assert [options.probe_port] == [port["containerPort"] for port in container["ports"]]
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(options.probe_port)


def test_probes_use_existing_paths(objects: list[Object]) -> None:
    probes = _source("kube/runtime/health.py")
    for container in containers(objects):
        asked = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
        assert asked == {"/healthz", "/readyz"}
        for path in asked:
            assert f'"{path}"' in probes


def test_the_configuration_is_where_the_scheduler_looks_and_is_the_built_in_one(objects: list[Object]) -> None:
    [configuration] = [one for one in of_kind(objects, "ConfigMap") if name_of(one) == "stromboli-scheduler"]
    [(file, text)] = configuration["data"].items()
    readers = [container for container in containers(objects) if container["args"][0] != "controllers"]
    assert readers
    for container in readers:
        [folder] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "configuration"]
        assert f"--config={folder}/{file}" in container["args"]
    registry = Registry(installed_plugins=(), installed_actions=())
    written, built_in = registry.load(text), registry.default()
    assert written.warnings == ()
    assert [action.name for action in written.actions] == [action.name for action in built_in.actions]
    assert [[(p.name, p.enabled) for p in tier.plugins] for tier in written.tiers] == [
        [(p.name, p.enabled) for p in tier.plugins] for tier in built_in.tiers
    ]


def test_the_policy_is_where_the_descheduler_looks_and_makes_sense() -> None:
    objects = render(WAYS["overlays/descheduler"])
    [policy] = [one for one in of_kind(objects, "ConfigMap") if name_of(one) == "stromboli-descheduler"]
    [(file, text)] = policy["data"].items()
    [container] = [one for one in containers(objects) if one["args"][0] == "descheduler"]
    [folder] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "policy"]
    assert f"--policy={folder}/{file}" in container["args"]
    assert Plugins(installed=()).load(text).warnings == ()


def test_containers_have_no_rights_they_do_not_need(objects: list[Object]) -> None:
    """What Kubernetes calls the restricted profile, and a file system that cannot be written to."""
    for deployment in of_kind(objects, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert all({"configMap", "emptyDir"} & set(volume) for volume in spec["volumes"])
        [container] = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


# -- the image --------------------------------------------------------------------------------------------------


def test_the_image_is_that_of_this_version(objects: list[Object]) -> None:
    assert {container["image"] for container in containers(objects)} == {f"ghcr.io/stromboli/stromboli:{__version__}"}


def test_the_image_is_what_the_pods_expect(objects: list[Object]) -> None:
    [user] = re.findall(r"^USER (\d+)", CONTAINERFILE, re.MULTILINE)
    [cache] = re.findall(r"NUMBA_CACHE_DIR=(\S+)", CONTAINERFILE)
    assert 'ENTRYPOINT ["stromboli"]' in CONTAINERFILE
    for deployment in of_kind(objects, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsUser"] == int(user)
        [container] = spec["containers"]
        assert "command" not in container
        assert cache in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_the_image_is_built_from_what_is_there_and_from_all_that_is_needed() -> None:
    copied = [
        path for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE) for path in line.split()[:-1]
    ]
    assert {"pyproject.toml", "README.md", "LICENSE", "src"} <= {path.rstrip("/") for path in copied}
    for path in copied:
        assert (PROJECT / path).exists(), f"the Containerfile copies {path}, which is not there"
    ignored = (PROJECT / ".containerignore").read_text(encoding="utf-8").split()
    allowed = {entry.removeprefix("!").rstrip("/") for entry in ignored if entry.startswith("!")}
    assert {path.rstrip("/") for path in copied} <= allowed


def test_stages_of_the_image_start_from_the_same_python() -> None:
    bases = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    assert len(bases) > 1
    assert all(one == other for one, other in pairwise(bases))


# -- the page ---------------------------------------------------------------------------------------------------


def test_the_page_has_every_overlay() -> None:
    documented = {row[0].removeprefix("deploy/") or "." for row in table(PAGE, "apply")}
    assert documented == set(WAYS)


def test_the_page_has_every_flag() -> None:
    documented = {flag for row in table(PAGE, "flag") for flag in re.findall(r"--[\w-]+", row[0])}
    for command in (commands.scheduler, commands.controllers, commands.run):
        flags = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        assert flags <= documented
    own = {"--policy", "--dry-run", "--keep-nodes"}  # docs/descheduler.md has these
    flags = {name for option in descheduler.params for name in (*option.opts, *option.secondary_opts)}
    assert flags <= documented | own
    assert documented == {name for option in commands.run.params for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize(
    ("role", "place"), [("stromboli-scheduler", 0), ("stromboli-controllers", 1), ("stromboli-descheduler", 2)]
)
def test_the_page_has_every_permission(role: str, place: int) -> None:
    [given] = [one for one in of_kind(render(WAYS["overlays/descheduler"]), "ClusterRole") if name_of(one) == role]
    granted = {(verb, resource) for rule in given["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    section = text_of(PAGE).split("| may | on | because |")[place + 1].partition("\n\n")[0]
    documented = {
        (verb, resource)
        for row in section.splitlines()[2:]
        for verb in row.split("|")[1].strip().split(", ")
        for resource in re.findall(r"`([a-z/]+)`", row.split("|")[2])
    }
    assert granted == documented
