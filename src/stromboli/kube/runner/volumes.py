"""The volumes of a pod as folders of this machine, and where its containers see them.

    <folder of the pod>/volumes/<name>      ConfigMaps, Secrets, projected and downward volumes as files; emptyDir
    <folder of claims>/<namespace>.<claim>.<uid>    claims: they outlive the pod

Files of ConfigMaps and Secrets are replaced whole when their objects change. A volume that cannot be given is an error,
never an empty folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from stromboli.sandbox.file_view import Mount

from .environment import DataSource, NotYet, Place, expand, field_of, resource_of
from .sandbox_process import CannotRun

_NOT_HERE: Final = "volumes of this kind are not available here"


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    content: bytes
    mode: int


class PodVolumes:
    """The volumes of one pod. `prepare` makes them, `mounts` says where a container sees them."""

    def __init__(
        self, pod: Mapping[str, Any], folder: Path, claims: Mapping[str, Path], *, host_paths_allowed: bool
    ) -> None:
        """`claims`: the folder of each claim in the pod's namespace that is bound."""
        self._pod = pod
        self._folder = folder
        self._claims = claims
        self._host_paths_allowed = host_paths_allowed
        self._sources: dict[str, Path] = {}
        self._written: dict[Path, set[Path]] = {}  # by folder

    def prepare(self, source: DataSource, place: Place) -> None:
        """Raises CannotRun or NotYet. May be called again, when objects have changed."""
        for volume in self._pod["spec"].get("volumes") or ():
            name = volume["name"]
            self._sources[name] = self._prepare(volume, self._folder / "volumes" / name, source, place)

    def mounts(self, container: Mapping[str, Any], environment: Mapping[str, str]) -> list[Mount]:
        """Raises CannotRun."""
        if container.get("volumeDevices"):
            raise CannotRun("block devices (volumeDevices) are not available here")
        found = []
        for mount in container.get("volumeMounts") or ():
            volume = self._sources.get(mount["name"])
            if volume is None:
                raise CannotRun(f"it mounts {mount['name']}, which is no volume of the pod")
            part = mount.get("subPath") or expand(mount.get("subPathExpr") or "", environment)
            path = _inside(volume, part) if part else volume
            if part and not path.exists():
                path.mkdir(parents=True)
            target = os.path.normpath("/" + mount["mountPath"].lstrip("/"))
            if target == "/":
                raise CannotRun("a volume cannot replace the root folder")
            found.append(Mount(str(path), target, bool(mount.get("readOnly"))))
        return found

    def _prepare(self, volume: Mapping[str, Any], folder: Path, source: DataSource, place: Place) -> Path:
        kind = next((field for field, value in sorted(volume.items()) if field != "name" and value is not None), "")
        match kind:
            case "emptyDir" | "":
                _make_folder(folder, 0o777)
                return folder
            case "configMap" | "secret" | "downwardAPI" | "projected":
                written = volume[kind]
                sources: Sequence[Mapping[str, Any]] = ({kind: written},)
                if kind == "projected":
                    sources = written.get("sources") or ()
                mode = _mode(written.get("defaultMode"), 0o644)
                files = [file for one in sources for file in self._files(one, mode, source, place)]
                self._written[folder] = _keep(folder, files, self._written.get(folder))
                return folder
            case "persistentVolumeClaim":
                return self._claim(volume[kind].get("claimName", ""))
            case "ephemeral":
                return self._claim(f"{self._pod['metadata']['name']}-{volume['name']}")
            case "hostPath":
                return self._host_path(volume[kind])
            case _:
                raise CannotRun(f"volume {volume['name']} is a {kind}; {_NOT_HERE}")

    def _claim(self, name: str) -> Path:
        if name not in self._claims:
            raise NotYet(f"the claim {name} is not bound")
        return self._claims[name]

    def _host_path(self, written: Mapping[str, Any]) -> Path:
        path = Path(written.get("path", ""))
        if not self._host_paths_allowed:
            raise CannotRun(f"the pod mounts the folder {path} of this machine; allow that with --allow-host-path")
        if written.get("type") in ("DirectoryOrCreate", "FileOrCreate") or not path.exists():
            raise CannotRun(f"{path} does not exist on this machine, and nothing is made there for a pod")
        return path

    def _files(self, written: Mapping[str, Any], mode: int, source: DataSource, place: Place) -> Iterator[_File]:
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if written.get(field) is not None:
                yield from _data_files(written[field], kind, mode, source)
        if written.get("downwardAPI") is not None:
            yield from self._downward_files(written["downwardAPI"], mode, place)
        for field in sorted(written.keys() - {"configMap", "secret", "downwardAPI"}):
            if written[field] is not None:
                raise CannotRun(f"a projected volume has the source {field}, which is not available here")

    def _downward_files(self, written: Mapping[str, Any], mode: int, place: Place) -> Iterator[_File]:
        for item in written.get("items") or ():
            if item.get("fieldRef") is not None:
                path = item["fieldRef"].get("fieldPath", "")
                text = field_of(self._pod, path, place)
                if text is None:
                    raise CannotRun(f"the file {item['path']} asks for {path or 'no field'}, which is not known here")
            else:
                text = resource_of(self._pod, {"name": ""}, item.get("resourceFieldRef") or {}, place)
            yield _File(item["path"], text.encode(), _mode(item.get("mode"), mode))


def _data_files(written: Mapping[str, Any], kind: str, mode: int, source: DataSource) -> Iterator[_File]:
    name = written.get("secretName") or written.get("name", "")
    mode = _mode(written.get("defaultMode"), mode)
    data = source.data(kind, name)
    if data is None:
        if written.get("optional"):
            return
        raise NotYet(f"{kind} {name} does not exist; create it")
    items = written.get("items")
    if not items:
        yield from (_File(key, value, mode) for key, value in sorted(data.items()))
        return
    for item in items:
        if item["key"] in data:
            yield _File(item["path"], data[item["key"]], _mode(item.get("mode"), mode))
        elif not written.get("optional"):
            raise NotYet(f"{kind} {name} has no key {item['key']}; add it")


def _mode(written: int | None, otherwise: int) -> int:
    return otherwise if written is None else written & 0o777


def _make_folder(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def _keep(folder: Path, files: list[_File], before: set[Path] | None) -> set[Path]:
    """Make the folder contain these files instead of those of `before`; None: instead of all that is there. Later there
    may be more in it: the places of other mounts. A reader sees the old or the new content of each file."""
    _make_folder(folder, 0o755)
    if before is None:
        before = {path for path in folder.rglob("*") if path.is_file()}
    wanted: set[Path] = set()
    for file in files:
        path = _inside(folder, file.path)
        wanted.add(path)
        if path.is_file() and path.read_bytes() == file.content:
            path.chmod(file.mode)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"..new-{path.name}")
        new.write_bytes(file.content)
        new.chmod(file.mode)
        new.replace(path)
    for path in sorted(before - wanted):
        path.unlink(missing_ok=True)
    return wanted


def _inside(folder: Path, written: str) -> Path:
    path = PurePosixPath(written)
    if path.is_absolute() or ".." in path.parts:
        raise CannotRun(f"the path {written} leaves its volume")
    return folder / path
