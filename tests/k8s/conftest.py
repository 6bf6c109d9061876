"""What is in k8s/, read as it is written and as kustomize puts it together."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from regroup.wire.provision import provision

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
FOLDERS = ("base", "components", "overlays", "secrets")  # others are a user's own
OVERLAYS = ("cpu", "gpu", "ha")

Document = dict[str, Any]


def kustomize() -> list[str]:
    """The command that renders a folder, wherever it is installed."""
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    pytest.skip("NOT RENDERED: neither kubectl nor kustomize is here; only the files as they are written were checked")


def documents(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


def written() -> list[Document]:
    """The base as its files say it, whether or not there is a kustomize here."""
    files = sorted((K8S / "base").rglob("*.yaml"))
    return [one for file in files if file.name != "kustomization.yaml" for one in documents(file.read_text())]


def _somebodys_secrets(folder: str, names: list[str]) -> set[str]:
    return set(names) - {"kustomization.yaml"} if Path(folder).name == "secrets" else set()


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """A copy of k8s/ with secrets in it, as a user makes them."""
    copy = tmp_path_factory.mktemp("manifests") / "k8s"
    for name in FOLDERS:
        shutil.copytree(K8S / name, copy / name, ignore=_somebodys_secrets)
    provision(copy / "secrets")
    return copy


@pytest.fixture(scope="session")
def render(tree):
    """The documents of a folder: `render(tree / "overlays" / "cpu")`."""
    known: dict[Path, list[Document]] = {}

    def rendered(folder: Path) -> list[Document]:
        if folder not in known:
            done = subprocess.run([*kustomize(), str(folder)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert done.stderr == "", done.stderr  # what is deprecated is told there
            known[folder] = documents(done.stdout)
        return known[folder]

    return rendered


@pytest.fixture(params=["as written", *OVERLAYS])
def cluster(request):
    """All documents of a cluster: the base's files, and each overlay rendered."""
    if request.param == "as written":
        return written()
    render, tree = request.getfixturevalue("render"), request.getfixturevalue("tree")
    return render(tree / "overlays" / request.param)
