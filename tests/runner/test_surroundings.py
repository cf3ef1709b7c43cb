"""What a program finds when it starts as a container: variables, files, names. Nothing is left out silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stromboli.kube.client import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS
from stromboli.kube.runner.names import SERVICES

from .machine import Machine, eventually, main_status, play, shell

CONFIG = {"metadata": {"name": "cfg"}, "data": {"color": "blue", "app.ini": "x = 1\n"}}
SECRET = {"metadata": {"name": "login"}, "data": {"password": "aHVzaA=="}}  # "hush"


def test_variables_come_from_config_maps_secrets_fields_and_resources(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.create(CONFIG_MAPS, CONFIG)
        await machine.create(SECRETS, SECRET)
        env: list[dict[str, Any]] = [
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "color"}}},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
            {"name": "NOTHING", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "BOTH", "value": "$(COLOR)-$(POD)-$$(POD)"},
        ]
        show = shell(
            'echo "$COLOR $PASSWORD ${NOTHING-unset} $POD $APP $CORES $MIB $BOTH"; env | grep ^P_',
            env=env,
            envFrom=[{"prefix": "P_", "configMapRef": {"name": "cfg"}}],
            resources={"limits": {"cpu": "1500m", "memory": "300Mi"}},
        )
        await machine.run("a", show, meta={"labels": {"app": "web"}})
        # 1.5 cores are rounded up to 2. app.ini is no name of a variable, and prefixed it is one: P_app.ini.
        lines = (await machine.output("a")).splitlines()
        assert lines[0] == "blue hush unset a web 2 300 blue-a-$(POD)"
        assert "P_color=blue" in lines

    play(tmp_path, story)


def test_a_missing_config_map_is_waited_for_and_named(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        env = [{"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "color"}}}]
        await machine.run("a", shell("echo $COLOR", env=env))
        pod = await machine.until("a", lambda pod: main_status(pod)["state"].get("waiting", {}).get("message"))
        waiting = main_status(pod)["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert waiting["message"] == "ConfigMap cfg does not exist; create it"
        assert pod["status"]["phase"] == "Pending"
        await machine.create(CONFIG_MAPS, CONFIG)
        assert await machine.output("a") == "blue\n"

    play(tmp_path, story)


VOLUMES = [
    {"name": "config", "configMap": {"name": "cfg", "items": [{"key": "app.ini", "path": "deep/app.ini"}]}},
    {"name": "secret", "secret": {"secretName": "login", "defaultMode": 0o400}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {
        "name": "all",
        "projected": {
            "sources": [{"configMap": {"name": "cfg"}}, {"secret": {"name": "login"}}],
        },
    },
]


def test_volumes_are_files_where_the_program_expects_them(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.create(CONFIG_MAPS, CONFIG)
        await machine.create(SECRETS, SECRET)
        mounts = [
            {"name": "config", "mountPath": "/config", "readOnly": True},
            {"name": "secret", "mountPath": "/etc/login"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "info", "mountPath": "/etc/podinfo"},
            {"name": "all", "mountPath": "/mnt/all"},
            {"name": "all", "mountPath": "/app/color.txt", "subPath": "color"},
        ]
        first = shell("echo prepared > /scratch/state", name="first", volumeMounts=mounts)
        show = shell(
            "cat /config/deep/app.ini /etc/login/password /scratch/state /etc/podinfo/labels /app/color.txt; echo;"
            "ls /mnt/all; stat -c %a /etc/login/password; touch /config/new 2>&1 | grep -o Read-only;"
            "ls /etc/passwd; cat /etc/hostname >/dev/null; ls -d /usr",
            volumeMounts=mounts,
        )
        await machine.run("a", show, initContainers=[first], volumes=VOLUMES, meta={"labels": {"app": "web"}})
        assert (await machine.output("a")).splitlines() == [
            "x = 1",
            "hushprepared",
            'app="web"',
            "blue",
            "app.ini",
            "color",
            "password",
            "400",
            "Read-only",
            "/etc/passwd",  # the machine's own files are still there
            "/usr",
        ]
        assert not Path("/config").exists()  # and the machine was not changed
        assert not Path("/etc/podinfo").exists()

    play(tmp_path, story)


def test_files_of_a_config_map_follow_it_and_claims_outlive_the_pod(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("stromboli.kube.runner.process_runner._REFRESH_SECONDS", 0.1)

    async def story(machine: Machine) -> None:
        await machine.create(CONFIG_MAPS, CONFIG)
        await machine.create(PERSISTENT_VOLUME_CLAIMS, {
            "metadata": {"name": "disk"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })  # fmt: skip
        volumes = [
            {"name": "config", "configMap": {"name": "cfg"}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
        ]
        mounts = [{"name": "config", "mountPath": "/config"}, {"name": "disk", "mountPath": "/disk"}]
        wait = shell(
            "until grep green /config/color; do sleep 0.05; done; cp /config/color /disk/", volumeMounts=mounts
        )
        await machine.run("a", wait, volumes=volumes)
        pod = await machine.until("a", lambda pod: main_status(pod)["state"].get("waiting", {}).get("message"))
        assert main_status(pod)["state"]["waiting"]["message"] == "the claim disk is not bound"
        bound = {"status": {"phase": "Bound"}}
        await machine.client.patch(PERSISTENT_VOLUME_CLAIMS, "default/disk", bound, subresource="status")
        await machine.until("a", lambda pod: "running" in main_status(pod)["state"])
        await machine.client.patch(CONFIG_MAPS, "default/cfg", {"data": {"color": "green"}})
        await machine.ended("a")
        await machine.run("b", shell("cat /disk/color", volumeMounts=mounts), volumes=volumes)
        assert await machine.output("b") == "green"
        await machine.client.delete(PERSISTENT_VOLUME_CLAIMS, "default/disk")
        await eventually(lambda: not list((tmp_path / "machine" / "claims").iterdir()))

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("container", "spec", "expected"),
    [
        ({"image": "x"}, {}, "the container has no command"),
        ({"command": ["no-such-program"]}, {}, "there is no program no-such-program on this machine"),
        (shell("true", workingDir="/no/such"), {}, "its workingDir /no/such does not exist"),
        (shell("true"), {"hostPID": True}, "spec.hostPID: the processes of the machine cannot be had here"),
        (
            shell("true", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            {"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]},
            "allow that with --allow-host-path",
        ),
        (
            shell("true", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
            "volume v is a nfs; volumes of this kind are not available here",
        ),
        (shell("true", env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "none"}}}]), {}, "asks for none"),
        (shell("true", livenessProbe={"grpc": {"port": 1}}), {}, "its livenessProbe is none of exec"),
        (shell("true", securityContext={"runAsNonRoot": True, "runAsUser": 0}), {}, "it would run as root"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_with_the_reason(
    tmp_path: Path, container: dict[str, Any], spec: dict[str, Any], expected: str
) -> None:
    async def story(machine: Machine) -> None:
        await machine.run("a", container, **spec)
        pod = await machine.ended("a")
        ended = main_status(pod)["state"]["terminated"]
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "CannotRun")
        assert (ended["reason"], ended["exitCode"]) == ("CannotRun", 128)
        assert expected in ended["message"]
        assert expected in await machine.log("a")

    play(tmp_path, story)


def test_members_of_a_gang_find_each_other_by_name(tmp_path: Path) -> None:
    """Two programs that exchange data over TCP, where each knows the other's name only. Both bind the same port."""
    serve = (
        "import os, socket; s = socket.create_server((os.environ['IP'], 7000)); peer = s.accept()[0]; "
        "peer.sendall(peer.recv(99).upper()); print(socket.gethostbyname(socket.gethostname()) == os.environ['IP'])"
    )
    ask = (
        "import os, socket, time\n"
        "own = socket.create_server((os.environ['IP'], 7000))\n"
        "for name in ('j-master-0.j', 'j-master-0.j.default.svc.cluster.local', 'j'):\n"
        "    socket.gethostbyname(name)\n"
        "while True:\n"
        "    try: peer = socket.create_connection(('j-master-0.j', 7000)); break\n"
        "    except OSError: time.sleep(0.05)\n"
        "peer.sendall(b'hello'); print(peer.recv(99).decode())"
    )

    async def story(machine: Machine) -> None:
        await machine.create(SERVICES, {
            "metadata": {"name": "j"},
            "spec": {"clusterIP": "None", "selector": {"job": "j"}, "publishNotReadyAddresses": True},
        })  # fmt: skip
        env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        labels = {"labels": {"job": "j"}}
        for name, program in (("j-master-0", serve), ("j-worker-0", ask)):
            container = {"command": ["python3", "-c", program], "env": env}
            await machine.run(name, container, hostname=name, subdomain="j", meta=labels)
        assert await machine.output("j-worker-0") == "HELLO\n"
        assert await machine.output("j-master-0") == "True\n"

    play(tmp_path, story)


def test_a_service_has_a_name_and_its_port_leads_to_the_pod(tmp_path: Path) -> None:
    serve = (
        "import http.server, os; h = http.server.BaseHTTPRequestHandler\n"
        "class H(h):\n"
        "    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'served')\n"
        "http.server.HTTPServer((os.environ['IP'], 9000), H).serve_forever()"
    )
    ask = "import urllib.request, os; print(urllib.request.urlopen('http://web:8080/', timeout=20).read().decode())"

    async def story(machine: Machine) -> None:
        await machine.create(SERVICES, {
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": "http"}]},
        })  # fmt: skip
        env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        server = {
            "command": ["python3", "-c", serve],
            "env": env,
            "ports": [{"name": "http", "containerPort": 9000}],
            "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
        }
        await machine.run("server", server, meta={"labels": {"app": "web"}})
        ready = await machine.until("server", lambda pod: main_status(pod).get("ready"))
        assert {one["type"]: one["status"] for one in ready["status"]["conditions"]}["Ready"] == "True"
        client = {"command": ["python3", "-c", ask]}
        await machine.run("client", client, restartPolicy="OnFailure")
        assert await machine.output("client") == "served\n"

    play(tmp_path, story)
