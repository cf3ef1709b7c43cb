"""The page of a real cluster in one process: a job from kubectl appears, and a restart of the server is survived."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from browser.console_errors import Errors
from browser.showing import show
from embedded.test_up import api_of

KUBECTL = shutil.which("kubectl") or shutil.which("kubectl", path=os.environ.get("KUBEBUILDER_ASSETS", ""))
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: %s}
spec:
  minAvailable: 2
  tasks:
  - name: main
    replicas: 2
    template:
      spec: {containers: [{name: main, image: none, resources: {requests: {cpu: %s}}}]}
"""


class Up:
    """`stromboli up` in a process of its own, which can be restarted on the same data and the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page = ""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        arguments = ["up", "--nodes", "5", "--data", str(self.folder), "--web-port", str(self._port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stromboli", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("The page: "):
                self.page = line.removeprefix("The page: ").strip()
                return
        raise AssertionError("the cluster did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.communicate(timeout=60)

    def create(self, manifest: str) -> None:
        """With kubectl, or as it would where there is none."""
        if KUBECTL is None:
            api_of(self.folder / "kubeconfig").create(JOBS, yaml.safe_load(manifest))
            return
        command = [KUBECTL, "--kubeconfig", str(self.folder / "kubeconfig"), "create", "--filename", "-"]
        subprocess.run(command, input=manifest, text=True, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def test_jobs_appear_and_a_restart_is_survived(
    up: Up, open_page: Callable[..., Page], screenshot: Callable[[Page, str], Path], errors: Errors
) -> None:
    page = open_page(up.page)
    page.wait_for_selector("#main[data-drawn]")
    show(page, "jobs")
    up.create(JOB % ("small", 1))
    row = page.locator("tr", has_text="default/small")
    expect(row).to_contain_text("Running")
    up.create(JOB % ("wide", 1000))
    expect(page.locator("tr", has_text="default/wide")).to_contain_text("The gang can never start: 2000 cpu requested")
    show(page, "jobs", "default/wide")
    expect(page.locator(".why")).to_contain_text("It is number 1 of 1 that wait in its queue.")
    page.get_by_role("button", name="Try what would start it").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".trials")).to_contain_text("No start is in sight.")
    expect(page.locator(".trials")).to_contain_text("It starts now with at most 32 cpu for each pod.")
    expect(page.get_by_role("button", name="Try what would start it")).to_be_focused()
    expect(page.locator("tr", has_text="default/wide")).to_contain_text("InsufficientNode")
    screenshot(page, "live-what-if")
    show(page, "nodes")
    expect(page.locator("tbody tr", has_text="1 cpu").first).to_be_visible()
    screenshot(page, "live-nodes")

    # While the server is away the browser itself reports the requests that fail.
    errors.expected += ["Failed to load resource: net::ERR_"]
    up.stop()
    expect(page.get_by_text("The connection to the server is lost.")).to_be_visible()
    up.start()
    expect(page.locator("#state")).to_contain_text("Live")
    show(page, "jobs")
    expect(row).to_contain_text("Running")
    up.create(JOB % ("later", 1))
    expect(page.locator("tr", has_text="default/later")).to_be_visible()
    screenshot(page, "live-jobs")
