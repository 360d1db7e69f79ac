"""Messages of Web Push: encrypted for one browser (RFC 8291), and sent in the server's own name (VAPID, RFC 8292)."""

import json
import os
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import InvalidKey, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from understudy.config.private_file import written_beside
from understudy.config.tokens import read_private
from understudy.errors import ConfigError

KEEP_SECONDS = 3600  # by the push service, for a phone that is off
_TOKEN_SECONDS = 12 * 3600
_RECORD_BYTES = 4096
_LAST_RECORD = b"\x02"
_POINT_BYTES, _SECRET_BYTES = 65, 16


class Subscription(msgspec.Struct, frozen=True):
    """What a browser gives: its address, and the key for encrypting messages to it."""

    endpoint: str
    p256dh: str
    auth: str


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def bytes_of(text: str) -> bytes:
    """Raises `ValueError`."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Error, UnicodeEncodeError):
        raise ValueError("not base64url") from None


def check_keys(subscription: Subscription) -> None:
    """Raises `ValueError`."""
    point, secret = bytes_of(subscription.p256dh), bytes_of(subscription.auth)
    if len(point) != _POINT_BYTES or len(secret) != _SECRET_BYTES:
        raise ValueError("keys of a wrong length")
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)


class Sender:
    """The server's identity for push services."""

    def __init__(self, state_dir: Path, subject: str) -> None:
        """Makes the key if there is none. Raises `ConfigError`."""
        self._key = _key_in(state_dir / "push.key")
        self._subject = subject
        self.public = text_of(_point(self._key))

    def headers(self, subscription: Subscription, topic: str) -> list[tuple[str, str]]:
        """`topic`: a later message with the same topic replaces one that was not delivered yet."""
        parts = urlsplit(subscription.endpoint)
        claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int(time.time()) + _TOKEN_SECONDS, "sub": self._subject}
        signed = ".".join(text_of(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "ES256"}, claims))
        one, other = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = text_of(one.to_bytes(32, "big") + other.to_bytes(32, "big"))
        return [
            ("Authorization", f"vapid t={signed}.{signature}, k={self.public}"),
            ("Content-Encoding", "aes128gcm"),
            ("Content-Type", "application/octet-stream"),
            ("TTL", str(KEEP_SECONDS)),
            ("Urgency", "high"),
            ("Topic", text_of(sha256(topic.encode()).digest())[:32]),
        ]


def encrypted(message: bytes, subscription: Subscription) -> bytes:
    """Only that browser can read it, not the service that delivers it."""
    theirs, secret = bytes_of(subscription.p256dh), bytes_of(subscription.auth)
    key, salt = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
    ours = _point(key)
    material = _derived(shared, secret, b"WebPush: info\0" + theirs + ours, 32)
    content_key = _derived(material, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(material, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + struct.pack("!IB", _RECORD_BYTES, len(ours)) + ours
    return head + AESGCM(content_key).encrypt(nonce, message + _LAST_RECORD, None)


def _derived(secret: bytes, salt: bytes, about: bytes, size: int) -> bytes:
    return HKDF(hashes.SHA256(), size, salt, about).derive(secret)


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return key.public_key().public_bytes(serialization.Encoding.X962, form)


def _key_in(path: Path) -> ec.EllipticCurvePrivateKey:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.path.lexists(path):
        kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        text = ec.generate_private_key(ec.SECP256R1()).private_bytes(*kind).decode()
        with written_beside(path, text) as beside, suppress(FileExistsError):
            os.link(beside, path)  # the first process makes it
    try:
        key = serialization.load_pem_private_key(read_private(path), None)
    except (ValueError, TypeError, InvalidKey, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path} holds no key: remove the file, and a new one is made (browsers then have to be asked again)")
    return key
