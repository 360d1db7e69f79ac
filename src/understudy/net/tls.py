"""TLS settings: which certificate authorities are trusted. `ssl` is imported only when an https address is used."""

import os
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.net.failures import Unreachable

if TYPE_CHECKING:
    import ssl

REPLACING = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")  # instead of the system's, first one set
ADDING = ("CODEX_CA_CERTIFICATE", "NODE_EXTRA_CA_CERTS")  # in addition to the system's
SYSTEM_BUNDLES = (  # a Python that was built elsewhere may look for them in a place that does not exist here
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def client_context(env: Mapping[str, str]) -> "ssl.SSLContext":
    """Certificates and host names are always checked. Raises Unreachable if a configured bundle cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    replacing = [name for name in REPLACING if env.get(name, "").strip()]
    for name in replacing[:1]:
        _trust(context, name, env[name].strip())
    if not replacing:
        _trust_system(context)
    for name in ADDING:
        if path := env.get(name, "").strip():
            _trust(context, name, path)
    return context


def _trust(context: "ssl.SSLContext", variable: str, path: str) -> None:
    try:
        if Path(path).is_dir():
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "no certificates in it"
        raise Unreachable(f"cannot use the certificates of {variable} ({path}): {reason}", transient=False) from None


def _trust_system(context: "ssl.SSLContext") -> None:
    paths = ssl.get_default_verify_paths()
    found = any(path and os.path.exists(path) for path in (paths.cafile, paths.capath))
    context.load_default_certs()
    if found or sys.platform in ("win32", "darwin"):
        return
    for bundle in SYSTEM_BUNDLES:
        if os.path.exists(bundle):
            context.load_verify_locations(cafile=bundle)
            return
