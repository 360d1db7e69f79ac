"""Real name servers in a network of their own, through the system's own resolver: slow, silent, failing, or wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NETWORK = ("unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c")
BEGIN = 'ip link set lo up && mount --bind "$0" /etc/resolv.conf && exec "$@"'

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="other systems have no network namespaces")]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("right", "Here."),
        ("slow", "Here."),
        ("no-word-of-ipv6", "Here."),
        ("dead-ipv6", "Here."),
        ("first-is-dead", "Here."),
        ("not-known", "the name model.test cannot be resolved (Name or service not known)"),
        ("failing", "the name model.test cannot be resolved (Temporary failure in name resolution)"),
        ("no-address", "the name model.test cannot be resolved (No address associated with hostname)"),
        ("nowhere", "Network is unreachable"),
        ("silent", "the name model.test "),
    ],
)
def test_what_is_known_counts_and_what_is_not_is_told(tmp_path: Path, how: str, told: str) -> None:
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n")
    if subprocess.run([*NETWORK, BEGIN, resolver, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network namespace with a resolv.conf of its own can be made here; run the tests as root")
    done = subprocess.run(
        [*NETWORK, BEGIN, resolver, sys.executable, "-m", "tests.net.beside_name_server", how],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert told in answer["text"], answer
