"""What a Job's plugins and volumes give to its pods, and what they need for it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import Container, JobVolume, Pod
from stromboli.controllers import ControllerManager, Delete, EnsureOwned


def furnished(*tasks: Any, **facts: Any) -> FakeCluster:
    """A job `ns/j`, let in, in a cluster whose pods really run."""
    cluster = FakeCluster(
        job("ns/j", *tasks, **facts), controllers=lambda: ControllerManager(run_job_plugins=True, validate=True)
    )
    cluster.start()
    return cluster


def secret_of(cluster: FakeCluster) -> Any:
    """Its name has the UID of the job: nobody needs to read one to know whose it is."""
    [job_uid] = {one.metadata.owner_references[0].uid for one in cluster.list(Pod)}
    return cluster.provided[f"Secret j-ssh-{job_uid}"]


def environment(container: Container) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") or entry["valueFrom"] for entry in container.env}


def main(cluster: FakeCluster, pod: str) -> Container:
    return cluster.pod(f"ns/{pod}").spec.containers[0]


def with_init(name: str, replicas: int) -> Any:
    made = task(name, replicas)
    made.template.spec.init_containers = [Container(name="before")]
    return made


class TestEnv:
    def test_every_container_learns_its_index(self) -> None:
        cluster = furnished(with_init("t", 2), plugins={"env": []})
        pod = cluster.pod("ns/j-t-1")
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            assert environment(container) == {"VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1"}

    def test_what_the_user_has_set_stays(self) -> None:
        said = task("t", 1)
        said.template.spec.containers[0].env = [{"name": "VC_TASK_INDEX", "value": "mine"}]
        cluster = furnished(said, plugins={"env": []})
        assert environment(main(cluster, "j-t-0")) == {"VC_TASK_INDEX": "mine", "VK_TASK_INDEX": "0"}
        # The template is the user's, and the next pod is made from it.
        assert said.template.spec.containers[0].env == [{"name": "VC_TASK_INDEX", "value": "mine"}]

    def test_without_plugins_nothing_is_added(self) -> None:
        cluster = furnished(task("t", 1))
        assert main(cluster, "j-t-0").env == []
        assert cluster.provided == {}


class TestSvc:
    def test_pods_find_each_other_by_name(self) -> None:
        cluster = furnished(task("big-task", 2), task("t", 1), plugins={"svc": []})
        pod = cluster.pod("ns/j-big-task-1")
        assert (pod.spec.hostname, pod.spec.subdomain) == ("j-big-task-1", "j")
        assert cluster.provided["ConfigMap j-svc"]["data"] == {
            "big_task.host": "j-big-task-0.j\nj-big-task-1.j",
            "VC_BIG_TASK_HOSTS": "j-big-task-0.j,j-big-task-1.j",
            "VC_BIG_TASK_NUM": "2",
            "t.host": "j-t-0.j",
            "VC_T_HOSTS": "j-t-0.j",
            "VC_T_NUM": "1",
        }
        own = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "ns"}
        assert cluster.provided["Service j"]["spec"] == {
            "clusterIP": "None",
            "selector": own,
            "publishNotReadyAddresses": False,
        }
        policy = cluster.provided["NetworkPolicy j"]["spec"]
        assert policy["podSelector"] == {"matchLabels": own}
        assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": own}}]}]
        container = pod.spec.containers[0]
        assert environment(container)["VC_T_NUM"] == {"configMapKeyRef": {"name": "j-svc", "key": "VC_T_NUM"}}
        assert container.volume_mounts == [{"name": "j-svc", "mountPath": "/etc/volcano"}]
        assert pod.spec.volumes == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]

    def test_names_in_the_template_count(self) -> None:
        named = task("t", 3)
        named.template.spec.hostname = "leader"
        named.template.spec.subdomain = "team"
        cluster = furnished(named, plugins={"svc": []})
        assert cluster.provided["ConfigMap j-svc"]["data"]["t.host"] == "leader.team"
        assert cluster.pod("ns/j-t-0").spec.hostname == "leader"

    def test_the_lists_follow_a_change_of_size_and_nothing_else_is_written_again(self) -> None:
        cluster = furnished(task("t", 1), plugins={"svc": [], "ssh": []})
        secret = secret_of(cluster)
        assert not any(isinstance(change, EnsureOwned) for change in cluster.settle())
        scaled = job("ns/j", task("t", 2), plugins={"svc": [], "ssh": []})
        cluster.put(_like(cluster, scaled))
        done = cluster.settle()
        assert cluster.provided["ConfigMap j-svc"]["data"]["VC_T_NUM"] == "2"
        assert "Secret" not in [change.owned.kind for change in done if isinstance(change, EnsureOwned)]
        assert secret_of(cluster) is secret

    def test_the_lists_are_written_before_pods_of_a_smaller_job_go(self) -> None:
        """Whoever reads the file must not look for a pod that is gone."""
        cluster = furnished(task("t", 3), plugins={"svc": []})
        cluster.put(_like(cluster, job("ns/j", task("t", 1), plugins={"svc": []})))
        done = cluster.settle()
        written = next(n for n, one in enumerate(done) if isinstance(one, EnsureOwned) and one.owned.name == "j-svc")
        deleted = [n for n, one in enumerate(done) if isinstance(one, Delete) and isinstance(one.object, Pod)]
        assert len(deleted) == 2
        assert written < min(deleted)

    def test_arguments(self) -> None:
        arguments = ["--publish-not-ready-addresses", "--disable-network-policy=true", "-inject-hosts-env=false"]
        cluster = furnished(task("t", 1), plugins={"svc": arguments})
        assert cluster.provided["Service j"]["spec"]["publishNotReadyAddresses"] is True
        assert "NetworkPolicy j" not in cluster.provided
        assert main(cluster, "j-t-0").env == []


class TestSsh:
    def test_pods_share_a_key_pair(self) -> None:
        cluster = furnished(task("t", 2), plugins={"ssh": []})
        files = {name: base64.b64decode(text) for name, text in secret_of(cluster)["data"].items()}
        private = load_ssh_private_key(files["id_rsa"], None)
        public = load_ssh_public_key(files["id_rsa.pub"])
        assert private.public_key() == public
        assert files["authorized_keys"] == files["id_rsa.pub"]
        volume = cluster.pod("ns/j-t-0").spec.volumes[0]
        assert volume["name"] == "j-ssh"
        assert volume["secret"]["defaultMode"] == 0o600
        assert main(cluster, "j-t-0").volume_mounts == [{"name": "j-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}]

    def test_names_become_addresses_also_after_scaling(self) -> None:
        cluster = furnished(task("t", 1), plugins={"ssh": ["--ssh-port=2222"]})
        said = base64.b64decode(secret_of(cluster)["data"]["config"]).decode()
        assert "Host j-t-* !*.*\n  HostName %h.j\n" in said
        assert "Host j-t-* j-t-*.*\n  Port 2222\n" in said

    @pytest.mark.parametrize("arguments", [["--ssh-key-file-path", "/home/me/.ssh"], ["--no-root"]])
    def test_another_user_can_read_the_key(self, arguments: list[str]) -> None:
        cluster = furnished(task("t", 1), plugins={"ssh": arguments})
        assert cluster.pod("ns/j-t-0").spec.volumes[0]["secret"]["defaultMode"] == 0o644

    def test_a_key_can_be_brought_along(self) -> None:
        cluster = furnished(task("t", 1), plugins={"ssh": ["--ssh-private-key=a", "--ssh-public-key=b"]})
        data = secret_of(cluster)["data"]
        assert [base64.b64decode(data[name]) for name in ("id_rsa", "id_rsa.pub", "authorized_keys")] == [
            b"a",
            b"b",
            b"b",
        ]


class TestFrameworks:
    def test_pytorch_tells_who_is_the_master_and_who_is_which(self) -> None:
        cluster = furnished(task("boss", 1), task("worker", 2), task("logs", 1), plugins={"pytorch": ["--master=boss"]})
        shared = {"MASTER_ADDR": "j-boss-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
        for pod, rank in {"j-boss-0": "0", "j-worker-0": "1", "j-worker-1": "2"}.items():
            said = environment(main(cluster, pod))
            assert said | shared | {"RANK": rank} == said
        assert "RANK" not in environment(main(cluster, "j-logs-0"))
        assert "Service j" in cluster.provided  # without it nobody would find the master

    def test_tensorflow_tells_who_all_are_and_which_of_them_a_pod_is(self) -> None:
        cluster = furnished(task("ps", 1), task("w", 2), plugins={"tensorflow": ["--worker=w", "--port=99"]})
        assert json.loads(environment(main(cluster, "j-w-1"))["TF_CONFIG"]) == {
            "cluster": {"ps": ["j-ps-0.j:99"], "worker": ["j-w-0.j:99", "j-w-1.j:99"]},
            "task": {"type": "worker", "index": 1},
        }

    def test_a_single_pod_is_no_cluster(self) -> None:
        cluster = furnished(task("worker", 1), plugins={"tensorflow": []})
        assert "TF_CONFIG" not in environment(main(cluster, "j-worker-0"))

    def test_mpi_tells_the_master_where_workers_are_and_lets_it_in(self) -> None:
        cluster = furnished(task("master", 1), task("worker", 2), plugins={"mpi": []})
        assert environment(main(cluster, "j-master-0"))["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
        assert "MPI_HOST" not in environment(main(cluster, "j-worker-0"))
        assert "Service j" in cluster.provided
        assert secret_of(cluster)["data"]


class TestVolumes:
    def test_a_claim_is_made_and_one_that_is_there_is_used(self) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volumes = [
            JobVolume(mount_path="/data", volume_claim_name="corpus"),
            JobVolume(mount_path="/scratch", volume_claim=claim),
        ]
        cluster = furnished(with_init("t", 1), volumes=volumes)
        assert cluster.provided == {"PersistentVolumeClaim j-volume-1": {"spec": claim}}
        pod = cluster.pod("ns/j-t-0")
        assert [volume["persistentVolumeClaim"]["claimName"] for volume in pod.spec.volumes] == ["corpus", "j-volume-1"]
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            assert [mount["mountPath"] for mount in container.volume_mounts] == ["/data", "/scratch"]


class TestOrder:
    def test_what_pods_mount_is_written_before_the_status_and_the_pods(self) -> None:
        cluster = FakeCluster(
            job("ns/j", task("t", 1), plugins={"svc": []}), controllers=lambda: ControllerManager(run_job_plugins=True)
        )
        kinds = [type(change).__name__ for change in cluster.settle() if change.object.kind == "Job"]
        assert kinds == ["EnsureOwned", "EnsureOwned", "EnsureOwned", "Update"]

    def test_a_job_that_has_ended_needs_nothing(self) -> None:
        cluster = FakeCluster(
            job("ns/j", task("t", 1), plugins={"svc": []}), controllers=lambda: ControllerManager(run_job_plugins=True)
        )
        cluster.command("AbortJob", cluster.job("ns/j"))
        cluster.settle()
        assert cluster.phase("ns/j") == "Aborted"
        assert cluster.provided == {}


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        ({"spark": []}, 'spec.plugins: must be one of env, mpi, pytorch, ray, ssh, svc, tensorflow, not "spark"'),
        ({"pytorch": []}, "spec.plugins.pytorch: needs a task named master; set another name with --master"),
        ({"mpi": ["--master=t"]}, "spec.plugins.mpi: needs a task named worker; set another name with --worker"),
        ({"svc": ["--what"]}, "the argument --what is unknown; known arguments: --publish-not-ready-addresses"),
        ({"svc": ["--disable-network-policy=perhaps"]}, "must be true or false, not perhaps"),
        ({"ssh": ["--ssh-port"]}, "the argument --ssh-port needs a value"),
        ({"ssh": ["--ssh-port=ssh"]}, "must be a whole number, not ssh"),
        ({"ssh": ["--ssh-port=0"]}, "must be between 1 and 65535, not 0"),
        ({"ssh": ["--ssh-key-file-path=keys"]}, "must be an absolute path, not keys"),
        ({"ssh": ["--ssh-private-key=a"]}, "need each other"),
        ({"env": ["x"]}, "the argument x is unknown; known arguments: none"),
    ],
)
def test_what_a_plugin_cannot_be_told_is_said(plugins: dict[str, list[str]], said: str) -> None:
    cluster = furnished(task("t", 1), plugins=plugins)
    assert cluster.names(Pod) == ()
    assert said in cluster.job("ns/j").status.state.message
    assert [notice.reason for notice in cluster.notices] == ["Invalid"]


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        (JobVolume(mount_path="data", volume_claim_name="c"), "spec.volumes[0].mountPath: must be an absolute path"),
        (JobVolume(mount_path="/data"), "spec.volumes[0]: must have either a volumeClaimName or a volumeClaim"),
        (JobVolume(volume_claim_name="c"), "spec.volumes[0].mountPath: must be an absolute path"),
    ],
)
def test_what_a_volume_cannot_be_is_said(volume: JobVolume, said: str) -> None:
    cluster = furnished(task("t", 1), volumes=[volume])
    assert said in cluster.job("ns/j").status.state.message


def test_names_that_are_no_host_names_are_refused() -> None:
    cluster = FakeCluster(
        job("ns/a.b", task("t", 1), plugins={"svc": []}), controllers=lambda: ControllerManager(validate=True)
    )
    cluster.settle()
    assert "host names of at most 63" in cluster.job("ns/a.b").status.state.message


def _like(cluster: FakeCluster, changed: Any) -> Any:
    """The job of the cluster, with the spec of another."""
    present = cluster.job("ns/j")
    changed.metadata, changed.status = present.metadata, present.status
    return changed
