"""The part of `kubectl kustomize` that deploy/ needs: resources, JSON patches, image tags.

For machines whose kubectl is missing or too old. With a newer one, a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"

Object = dict[str, Any]

WAYS = {
    path.parent.relative_to(DEPLOY).as_posix(): path.parent
    for path in [DEPLOY / "kustomization.yaml", *sorted(DEPLOY.glob("overlays/*/kustomization.yaml"))]
}
"""All the ways to install: the plain one (`.`) and the overlays."""


def render(folder: Path) -> list[Object]:
    plan = _read(folder / "kustomization.yaml")
    unknown = set(plan) - {"apiVersion", "kind", "resources", "components", "patches", "images"}
    assert not unknown, f"{folder.name}/kustomization.yaml: do not know how to read {', '.join(sorted(unknown))}"
    objects: list[Object] = []
    for resource in plan["resources"]:
        path = (folder / resource).resolve()
        objects += render(path) if path.is_dir() else documents(path.read_text(encoding="utf-8"))
    for component in plan.get("components", ()):
        apply_component(folder / component, objects)
    apply_component(folder, objects)
    for image in plan.get("images", ()):
        for container in containers(objects):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image['name']}:{image['newTag']}"
    return objects


def apply_component(folder: Path, objects: list[Object]) -> None:
    """Add the resources of a component, and apply the patches of a folder. A component of ours has nothing else."""
    plan = _read(folder / "kustomization.yaml")
    for resource in plan.get("resources", ()) if plan["kind"] == "Component" else ():
        objects += documents((folder / resource).read_text(encoding="utf-8"))
    for patch in plan.get("patches", ()):
        targets = [one for one in objects if _is_meant(one, patch["target"])]
        assert targets, f"{folder.name}: nothing to patch with {patch['path']}"
        for target in targets:
            for step in _read(folder / patch["path"]):
                change(target, step)


def containers(objects: list[Object]) -> list[Object]:
    deployments = [one for one in objects if one["kind"] == "Deployment"]
    return [container for one in deployments for container in one["spec"]["template"]["spec"]["containers"]]


def documents(text: str) -> list[Object]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _is_meant(obj: Object, target: Object) -> bool:
    return obj["kind"] == target["kind"] and target.get("name") in (None, obj["metadata"]["name"])


def change(document: Any, step: Object) -> None:
    """One operation of a JSON patch."""
    *path, last = step["path"].split("/")[1:]
    for name in path:
        document = document[int(name)] if isinstance(document, list) else document[name]
    match step["op"], document:
        case "add", list():
            assert last == "-"
            document.append(step["value"])
        case "add", dict():
            assert last not in document
            document[last] = step["value"]
        case "remove", list():
            del document[int(last)]
        case "remove", dict():
            del document[last]
        case "replace", dict():
            assert last in document
            document[last] = step["value"]
        case operation, _:
            raise AssertionError(f"do not know how to {operation} {step['path']}")
