"""Certificates that are not valid any more, or not yet: that is told with what this machine takes for the time."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.models.loopback import loopback
from understudy.testing import McpProcess, text_of


def make_certificate(folder: Path, begins: datetime, ends: datetime) -> Path:
    """Of 127.0.0.1, signed by itself; the key stands in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins, ends)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    signed = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = folder / "server.pem"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form) + signed.public_bytes(serialization.Encoding.PEM))
    return path


def serving(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.quick(1)
@pytest.mark.parametrize(("begins", "ends", "told"), [(-9, -2, "certificate has expired"), (2, 9, "certificate is not yet valid")])
async def test_a_certificate_of_another_time_is_told_with_ours(tmp_path: Path, begins: int, ends: int, told: str) -> None:
    now = datetime.now(UTC)
    certificate = make_certificate(tmp_path, now + timedelta(begins), now + timedelta(ends))
    trusted = {"SSL_CERT_FILE": str(certificate)}
    async with loopback(tls=serving(certificate)) as server, McpProcess(server.url, cwd=tmp_path, env=trusted) as client:
        text = text_of(await client.codex("Hello"))
    assert told in text
    assert "Is the clock of this machine right? It says 2" in text
