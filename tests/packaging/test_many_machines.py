"""Deploying workers and front ends: units that systemd checks, a chart that is checked against the API's schemas, a compose file.

No cluster and no container engine is there: what they would run is taken from what they would be given, and run here.
"""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.test_team_server import is_healthy
from tests.support.environments import python_with
from tests.support.postgres import the_server
from understudy.testing.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
CHART = PACKAGING / "helm" / "understudy"
RENDERER = Path(__file__).with_name("render_chart.py")
RENDERS = ("gotpl[helm]==0.1.0", "kubernetes-validate==1.37.0")
VERSIONS = ("1.27.0", "1.31.0", "1.37.0")
NEEDED: dict[str, Any] = {"store": {"existingSecret": "db"}, "keys": {"existingSecret": "keys"}}
ALL: dict[str, Any] = NEEDED | {
    "git": {"existingSecret": "git"},
    "models": {"existingSecret": "models"},
    "imagePullSecrets": [{"name": "registry"}],
    "snapshots": "ssh://git@git.internal/snapshots.git",
    "workspaceUrls": ["https://git.internal/"],
    "drainSeconds": 45,
    "front": {"publicUrl": "https://agents.example.org", "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
    "workers": {"storageClass": "fast", "autoscaling": {"enabled": True, "maxReplicas": 9}, "affinity": {"podAntiAffinity": {}}},
    "network": {"from": [{"namespaceSelector": {}}], "database": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}


# -- units


@pytest.mark.parametrize("name", ["worker", "front"])
def test_the_unit_is_one_that_systemd_understands_and_finds_closed(tmp_path: Path, name: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed, so the unit cannot be checked by it (apt-get install systemd)")
    text = (PACKAGING / f"understudy-{name}.service").read_text()
    copy = tmp_path / f"understudy-{name}.service"
    copy.write_text(text.replace("/opt/understudy/bin/understudy", "/bin/true"))  # which has to be there to be checked
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    if name == "worker":
        for setting in ("RestrictNamespaces", "ProtectProc", "ProcSubset", "ProtectKernelTunables", "MountAPIVFS"):
            assert f"\n{setting}=" not in text, f"{setting} would take the agent's own sandbox away"
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert f"\n{line}\n" in text


def exec_of(unit: str, name: str) -> list[str]:
    (line,) = [line for line in (PACKAGING / unit).read_text().splitlines() if line.startswith(f"{name}=")]
    program, *arguments = shlex.split(line.partition("=")[2].removeprefix("-"))
    assert program == "/opt/understudy/bin/understudy"
    return [word.replace("%H", "here") for word in arguments]


@pytest.mark.slow
async def test_the_commands_of_the_units_serve_and_drain(tmp_path: Path) -> None:
    env = surroundings(tmp_path, tmp_path / "state")
    (tmp_path / "state").mkdir()
    Path(env["UNDERSTUDY_STORE_URL_FILE"]).parent.mkdir()
    Path(env["UNDERSTUDY_STORE_URL_FILE"]).write_text(the_server().new_tables())
    assert await run(["store", "init"], env) == 0
    assert await run(["token", "add", "alice"], env) == 0
    worker = exec_of("understudy-worker.service", "ExecStart")
    async with served(without_port(worker), env), served(without_port(exec_of("understudy-front.service", "ExecStart")), env):
        assert await run(exec_of("understudy-worker.service", "ExecStop"), env) == 0


# -- the chart


def rendered(values: Mapping[str, Any], *, release: str = "understudy", versions: Sequence[str] = VERSIONS) -> dict[str, Any]:
    asked = {"chart": str(CHART), "values": values, "release": release, "versions": versions}
    done = subprocess.run(
        [str(python_with(*RENDERS)), str(RENDERER)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS * 10,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def objects(values: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    found = rendered(values)
    assert found["problems"] == []
    return {(each["kind"], each["metadata"]["name"]): each for each in found["objects"]}


@pytest.mark.slow
def test_the_chart_is_what_the_api_of_kubernetes_takes() -> None:
    for values in (NEEDED, ALL, NEEDED | {"network": {"enabled": False}}):
        found = objects(values)
        assert all(len(name) <= 63 for _, name in found)
    for release in ("x", "a-release-with-a-name-that-is-as-long-as-helm-lets-it-be"):
        assert rendered(NEEDED, release=release, versions=("1.31.0",))["problems"] == []


@pytest.mark.slow
def test_the_chart_holds_what_keeps_conversations_and_their_files() -> None:
    found = objects(ALL)
    worker = found["StatefulSet", "understudy-worker"]["spec"]
    pod = worker["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] == 45 + 30
    assert container["args"][container["args"].index("--host-name") + 1] == "$(POD_NAME)"
    assert "workers drain" in container["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert worker["serviceName"] == "understudy-worker"
    assert found["Service", "understudy-worker"]["spec"]["clusterIP"] == "None"
    assert worker["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (claim,) = worker["volumeClaimTemplates"]
    assert (claim["metadata"]["name"], claim["spec"]["storageClassName"]) == ("state", "fast")
    assert "replicas" not in worker, "the autoscaler's"
    scaler = found["HorizontalPodAutoscaler", "understudy-worker"]["spec"]
    assert scaler["metrics"][0]["external"]["metric"]["name"] == "understudy_workspaces_waiting"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 9)
    assert scaler["behavior"]["scaleDown"]["selectPolicy"] == "Disabled", "its conversations would be away with it"
    for name in ("front", "worker"):
        assert found["PodDisruptionBudget", f"understudy-{name}"]["spec"]["maxUnavailable"] == 1
        assert "Ingress" in found["NetworkPolicy", f"understudy-{name}"]["spec"]["policyTypes"]
    assert "ingress" not in found["NetworkPolicy", "understudy-worker"]["spec"], "nobody may reach a worker"


@pytest.mark.slow
def test_every_pod_of_the_chart_is_closed_and_selected_by_its_own() -> None:
    for each in objects(ALL).values():
        spec = each.get("spec", {})
        if "template" not in spec:
            continue
        pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
        for container in (*pod["initContainers"], *pod["containers"]):
            closed = container["securityContext"]
            assert (closed["readOnlyRootFilesystem"], closed["allowPrivilegeEscalation"]) == (True, False)
            assert closed["capabilities"] == {"drop": ["ALL"]}
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
            assert mounted <= {volume["name"] for volume in pod["volumes"]} | claims
        if "selector" in spec:
            assert spec["selector"]["matchLabels"].items() <= labels.items()
        text = json.dumps(pod["containers"])
        assert ("secretRef" in text) == (each["kind"] == "StatefulSet"), "keys of providers are for workers alone"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "existingSecret"),
        (NEEDED | {"snapshots": "https://me:s3cret@git.internal/x"}, "snapshots"),
        (NEEDED | {"worker": {"replicas": 3}}, "worker"),
        (NEEDED | {"drainSeconds": "60"}, "drainSeconds"),
    ],
)
def test_values_that_cannot_work_are_refused(values: dict[str, Any], why: str) -> None:
    found = rendered(values, versions=())
    assert found["objects"] == []
    assert why in found["problems"][0]


@pytest.mark.slow
async def test_what_the_pods_of_the_chart_run_serves(tmp_path: Path) -> None:
    found = objects(ALL | {"front": {}})  # at an address of its own, its port would not be told
    pods = {
        "Job": ("understudy-store-init-1", ""),
        "StatefulSet": ("understudy-worker", "understudy-worker-0"),
        "Deployment": ("understudy-front", "understudy-front-1"),
    }
    config = found["ConfigMap", "understudy"]["data"]["config.toml"]
    assert tomllib.loads(config)["understudy"]["cluster"]["snapshots"] == "ssh://git@git.internal/snapshots.git"
    given(tmp_path, config)
    servers: list[tuple[list[str], dict[str, str]]] = []
    for kind, (name, pod) in pods.items():
        spec = found[kind, name]["spec"]["template"]["spec"]
        (before,), (container,) = spec["initContainers"], spec["containers"]
        folder = tmp_path / kind / "state"
        folder.mkdir(parents=True)
        for _ in range(2):  # as after a restart, on what is there
            assert await prepared(before["args"][0], tmp_path, folder) == 0
        env = surroundings(tmp_path, folder) | {"POD_NAME": pod}
        words = [*container["command"], *container.get("args", ())][1:]
        if kind == "Job":
            assert await run(words, env) == 0
        else:
            servers.append(([word.replace("$(POD_NAME)", pod) for word in words], env))
    (worker, worker_env), (front, front_env) = servers
    async with served(without_port(worker), worker_env), served(without_port(front), front_env):
        drain = found["StatefulSet", "understudy-worker"]["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]
        script = drain["exec"]["command"][-1].removesuffix("|| true")
        assert shlex.split(script)[0] == "understudy"
        assert await run([word.replace("$POD_NAME", worker_env["POD_NAME"]) for word in shlex.split(script)[1:]], worker_env) == 0


# -- the compose file


def compose() -> dict[str, Any]:
    return yaml.safe_load((PACKAGING / "compose.yaml").read_text())


@pytest.mark.slow
def test_the_compose_file_is_what_the_specification_takes() -> None:
    checker = python_with("check-jsonschema==0.39.0").with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", "vendor.compose-spec", str(PACKAGING / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS * 5, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_has_three_workers_and_two_fronts_with_what_they_need() -> None:
    file = compose()
    services = file["services"]
    roles = [each["command"][2] for each in services.values() if each.get("command", [""])[0] == "serve"]
    assert sorted(roles) == ["front", "front", "worker", "worker", "worker"]
    names = [each["command"][4] for name, each in services.items() if name.startswith("worker")]
    assert len(set(names)) == 3
    for each in services.values():
        for volume in each.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in file["volumes"] or source.startswith("../keys")
        assert set(each.get("depends_on", ())) <= set(services)
    volumes = [volume.split(":")[0] for each in services.values() for volume in each.get("volumes", ())]
    assert all(volumes.count(name) == 1 for name in file["volumes"]), "each server has folders of its own"


@pytest.mark.slow
async def test_what_the_services_of_the_compose_file_run_serves(tmp_path: Path) -> None:
    file = compose()
    given(tmp_path, file["configs"]["config"]["content"])
    running: list[tuple[list[str], dict[str, str]]] = []
    for name in ("store-init", "worker-a", "front-1"):
        service = file["services"][name]
        folder = tmp_path / name / "state"
        folder.mkdir(parents=True)
        shell, flags, script, *_ = service["entrypoint"]
        assert (shell, flags) == ("sh", "-euc")
        script = script.replace("$$", "$").replace('exec understudy "$@"', "")
        for _ in range(2):
            assert await prepared(script, tmp_path, folder) == 0
        env = surroundings(tmp_path, folder)
        if name == "store-init":
            assert await run(service["command"], env) == 0
        else:
            running.append((service["command"], env))
    (worker, worker_env), (front, front_env) = running
    async with served(worker, worker_env), served(front, front_env):
        assert await run(["workers", "drain", "a"], front_env) == 0


# -- running what they would run


def surroundings(folder: Path, state: Path) -> dict[str, str]:
    named = {"HOME": str(folder), "CODEX_HOME": str(state), "UNDERSTUDY_STORE_URL_FILE": str(state / "keys" / "url")}
    return {"PATH": os.environ["PATH"], **named}


def given(folder: Path, config: str) -> None:
    """What secrets and the configuration hold, below a folder of the test."""
    keys = folder / "given" / "keys"
    for name in ("keys", "store", "config", "git"):
        (folder / "given" / name).mkdir(parents=True)
    for place in (keys, folder / "given" / "store"):
        (place / "url").write_text(the_server().new_tables() if place == keys else (keys / "url").read_text())
    (keys / "audit.key").write_bytes(os.urandom(32))
    (keys / "token").write_text("t0ken-" + os.urandom(16).hex())
    (folder / "given" / "git" / "id_ed25519").write_text("a key")
    (folder / "given" / "config" / "config.toml").write_text(config.replace("/var/lib/understudy/keys", str(keys)))
    for path in (*keys.iterdir(), *(folder / "given" / "git").iterdir()):
        path.chmod(0o440)  # as a Secret's are


async def prepared(script: str, folder: Path, state: Path) -> int:
    moved = script.replace("/var/lib/understudy", str(state)).replace("/given", str(folder / "given"))
    process = await asyncio.create_subprocess_exec("sh", "-euc", moved, cwd=folder)
    code = await asyncio.wait_for(process.wait(), WAIT_SECONDS)
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.rglob("*") if path.is_file())
    return code


async def run(words: list[str], env: Mapping[str, str]) -> int | None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "understudy", *words, env=env, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert process.returncode == 0, (out + err).decode()
    return process.returncode


def without_port(words: list[str]) -> list[str]:
    if "--port" not in words:
        return words
    at = words.index("--port")
    return [*words[:at], *words[at + 2 :]]


@asynccontextmanager
async def served(words: list[str], env: Mapping[str, str]) -> AsyncGenerator[None]:
    """The command serves on a port of its own choice, and ends when it is told to."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "understudy", *words, "--port", "0"), env=env, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        first = (await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)).decode()
        assert await is_healthy(int(first.rpartition(":")[2].split("/")[0]))
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), WAIT_SECONDS * 2) == 0
