"""Kustomize puts every overlay together, Kubernetes knows every field of it, and what it names is there."""

import re
from base64 import b64decode
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from regroup.coordinator import exposition
from regroup.coordinator.metrics import of_cluster
from regroup.core.cluster import Cluster, Policy
from regroup.wire.token import metrics_token

from .conftest import FOLDERS, K8S, OVERLAYS, ROOT

VERSIONS = ("1.29", "1.33", "1.37")
CUSTOM = {"ServiceMonitor", "ScaledObject"}  # of operators; Kubernetes itself has no schema of them
VALID: set[str] = set()
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
PAGE = (ROOT / "docs/kubernetes.md").read_text()
SHOWN = re.findall(r"```yaml\n(# [a-z0-9-]+/kustomization\.yaml\n.+?)```", PAGE, re.DOTALL)


def compose(tree, name, overlay="cpu", *components, **more):
    """A folder of a user's own, beside the overlays, as the documentation has it."""
    folder = tree / name
    folder.mkdir()
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"../overlays/{overlay}"],
        "components": [f"../components/{each}" for each in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


def validate(documents):
    """Raises ValidationError. What was valid once is not looked at again: it takes seconds for each cluster."""
    for document in documents:
        text = yaml.safe_dump(document)
        if document["kind"] not in CUSTOM and text not in VALID:
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)
            VALID.add(text)


def names(documents, kind):
    return {each["metadata"]["name"] for each in documents if each["kind"] == kind}


def pods(documents):
    return {
        each["metadata"]["name"]: each["spec"]["template"] for each in documents if "template" in each.get("spec", {})
    }


def variables(template):
    return {each["name"]: each.get("value") for each in template["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_is_valid_in_every_version_of_kubernetes(render, tree, overlay):
    validate(render(tree / "overlays" / overlay))


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_is_valid_on_every_overlay_that_lacks_it(render, tree, component):
    for overlay in OVERLAYS:
        if (overlay, component) != ("ha", "standby"):
            validate(render(compose(tree, f"{overlay}-{component}", overlay, component)))


def test_a_field_that_kubernetes_does_not_know_is_found(cluster):
    worker = next(each for each in cluster if each["kind"] == "StatefulSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**worker, "spec": {**worker["spec"], "replica": 2}}, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_in_the_namespace_that_enforces_the_profile(render, tree, overlay):
    documents = render(tree / "overlays" / overlay)
    (namespace,) = [each for each in documents if each["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    outside = [each["kind"] for each in documents if each["metadata"].get("namespace") != "regroup"]
    assert outside == ["Namespace"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_secret_and_claim_that_is_mounted_is_there(render, tree, overlay):
    documents = render(tree / "overlays" / overlay)
    volumes = [volume for template in pods(documents).values() for volume in template["spec"]["volumes"]]
    secrets = {each["secret"]["secretName"] for each in volumes if "secret" in each}
    claims = {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}
    assert secrets == names(documents, "Secret") - {"regroup-metrics"}, "which Prometheus alone reads"
    assert claims == names(documents, "PersistentVolumeClaim")


def test_who_has_which_secret(render, tree):
    documents = render(tree / "overlays/cpu")
    held = {
        re.sub(r"-[a-z0-9]{10}$", "", each["metadata"]["name"]): set(each["data"])
        for each in documents
        if each["kind"] == "Secret"
    }
    assert held == {
        "regroup-coordinator": {"regroup_token", "regroup_redis_password"},
        "regroup-keys": {"server.secret", "worker.secret"},
        "regroup-redis": {"redis.conf"},
        "regroup-worker": {"regroup_join"},
        "regroup-metrics": {"token"},
    }


def test_the_cpu_overlay_asks_for_no_gpu_and_the_gpu_overlay_for_one_a_worker(render, tree):
    workers = {name: pods(render(tree / "overlays" / name))["regroup-worker"] for name in ("cpu", "gpu")}
    limits = {name: each["spec"]["containers"][0]["resources"]["limits"] for name, each in workers.items()}
    assert "nvidia.com/gpu" not in limits["cpu"]
    assert limits["gpu"]["nvidia.com/gpu"] == "1"
    assert "REGROUP_DEVICE" not in variables(workers["cpu"])
    assert variables(workers["gpu"])["REGROUP_DEVICE"] == "cuda"


def test_two_coordinators_are_told_apart_by_their_services_and_kept_apart_by_nodes(render, tree):
    documents = render(tree / "overlays/ha")
    both = {name: each for name, each in pods(documents).items() if name.startswith("regroup-coordinator")}
    assert set(both) == {"regroup-coordinator", "regroup-coordinator-b"}
    services = {each["metadata"]["name"]: each["spec"]["selector"] for each in documents if each["kind"] == "Service"}
    for name in both:
        led_to = [pod for pod, each in both.items() if services[name].items() <= each["metadata"]["labels"].items()]
        assert led_to == [name]
        (spread,) = both[name]["spec"]["topologySpreadConstraints"]
        wanted = spread["labelSelector"]["matchLabels"].items()
        assert all(wanted <= each["metadata"]["labels"].items() for each in both.values())
        assert variables(both[name])["REGROUP_STANDBY"] == "true"


def test_agents_know_every_coordinator_by_its_service(render, tree):
    for overlay in OVERLAYS:
        documents = render(tree / "overlays" / overlay)
        told = variables(pods(documents)["regroup-worker"])["REGROUP_COORDINATOR"]
        services = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Service"}
        coordinators = {name for name in services if name.startswith("regroup-coordinator")}
        assert set(re.findall(r"tcp://([a-z-]+):8788", told)) == coordinators
        assert all(8788 in {port["port"] for port in services[name]["ports"]} for name in coordinators)


def test_an_external_redis_leaves_none_here_and_a_way_out(render, tree):
    documents = render(compose(tree, "without-redis", "ha", "external-redis"))
    left = [f"{each['kind']} {each['metadata']['name']}" for each in documents if "redis" in each["metadata"]["name"]]
    assert left == ["NetworkPolicy regroup-coordinator-to-redis"]


def test_a_bucket_leaves_no_claim_and_no_folder_that_is_shared(render, tree):
    documents = render(compose(tree, "without-claim", "cpu", "s3"))
    assert names(documents, "PersistentVolumeClaim") == set()
    spec = pods(documents)["regroup-worker"]["spec"]
    mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert "shared" not in mounted
    assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_prometheus_finds_every_coordinator_and_keda_the_workers(render, tree):
    documents = render(compose(tree, "watched", "ha", "monitoring", "autoscaling"))
    (monitor,) = [each["spec"] for each in documents if each["kind"] == "ServiceMonitor"]
    wanted = monitor["selector"]["matchLabels"].items()
    services = [each for each in documents if each["kind"] == "Service"]
    found = {
        each["metadata"]["name"]: each["spec"] for each in services if wanted <= each["metadata"]["labels"].items()
    }
    assert set(found) == {"regroup-coordinator", "regroup-coordinator-b"}
    (endpoint,) = monitor["endpoints"]
    assert all(endpoint["port"] in {port["name"] for port in each["ports"]} for each in found.values())
    asked = endpoint["authorization"]["credentials"]
    (secret,) = [each for each in documents if each["kind"] == "Secret" and each["metadata"]["name"] == asked["name"]]
    token = (tree / "secrets/coordinator/token").read_text().strip()
    assert b64decode(secret["data"][asked["key"]]).decode().strip() == metrics_token(token)
    (route,) = [each for each in exposition.router.routes if each.path == endpoint["path"]]
    assert "GET" in route.methods
    (scaled,) = [each["spec"] for each in documents if each["kind"] == "ScaledObject"]
    (trigger,) = scaled["triggers"]
    told = {family.name for family in of_cluster(Cluster(started=0.0), Policy(), 0.0)}
    assert set(re.findall(r"regroup_\w+", trigger["metadata"]["query"])) <= told
    target = scaled["scaleTargetRef"]
    assert target["name"] in names(documents, target["kind"])


def test_what_the_documentation_shows_is_put_together_and_valid(render, tree):
    assert SHOWN
    for text in SHOWN:
        folder = tree / re.match(r"# ([a-z0-9-]+)/", text).group(1)
        folder.mkdir()
        (folder / "kustomization.yaml").write_text(text)
        (folder / "storage.env").write_text("AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\n")
        documents = render(folder)
        validate(documents)
        images = [template["spec"]["containers"][0]["image"] for template in pods(documents).values()]
        assert not [image for image in images if image.startswith("regroup-")], "the registry is the user's"


def test_no_secret_can_be_committed():
    assert (K8S / "secrets/.gitignore").read_text().split("\n")[1:4] == ["*", "!.gitignore", "!kustomization.yaml"]


def test_every_folder_is_named_in_the_documentation():
    found = [path for name in FOLDERS for path in (K8S / name).rglob("kustomization.yaml")]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in found}
    inner = {"k8s/base/coordinator", "k8s/components/standby/second"}
    assert [name for name in sorted(folders - inner) if f"`{name}" not in PAGE] == []


def test_every_file_is_part_of_something():
    for file in sorted(path for name in FOLDERS for path in (K8S / name).rglob("*.yaml")):
        if file.name != "kustomization.yaml":
            owner = yaml.safe_load(file.with_name("kustomization.yaml").read_text())
            named = [*owner.get("resources", ()), *(each.get("path") for each in owner.get("patches", ()))]
            assert Path(file).name in named, file
