"""A throw-away certificate authority and a server certificate for this machine's loopback, made with the openssl program."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from understudy.testing.waiting import WAIT_SECONDS


@dataclass(frozen=True)
class Authority:
    certificate: Path  # what clients must trust
    context: ssl.SSLContext  # for a server that is 127.0.0.1 and localhost


def make_authority(folder: Path) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (apt-get install openssl)")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=WAIT_SECONDS)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    authority = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test", "-days", "2", *authority)
    openssl("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", "-days", "2", "-extfile", "names", *signer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return Authority(folder / "ca.pem", context)
