"""Certificates to trust: read, and looked at before they are used: gRPC says of bad ones only that nobody is there.

Not for connections: whether a server has a certificate that these sign shows when it is called.
"""

from __future__ import annotations

import re
from pathlib import Path

_PEM = re.compile(rb"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----.+?-----END \1-----", re.DOTALL)
_WANTED = "it needs at least one that begins with -----BEGIN CERTIFICATE-----"


class BadCertificates(Exception):
    """The certificates cannot be used; the message is a sentence about the file, without its name."""


def read_certificates(path: Path) -> bytes:
    """Returns what a file has, which is at least one certificate in PEM.

    Raises:
        BadCertificates: It cannot be read, or has none, or one of them is damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadCertificates(f"cannot be read: {error.strerror}") from None
    check_certificates(data)
    return data


def check_certificates(data: bytes) -> None:
    """Checks that this is at least one certificate in PEM.

    Raises:
        BadCertificates: It has none, or one of them is damaged.
    """
    import ssl  # here, since most connections of a program are not encrypted, and it takes long to load

    found = [block.group() for block in _PEM.finditer(data)]
    if not found:
        raise BadCertificates(_what_else(data))
    for number, block in enumerate(found, 1):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block.decode("ascii"))
        except (ssl.SSLError, ValueError):
            which = f"certificate {number} of {len(found)} in it"
            raise BadCertificates(f"is damaged: {which} cannot be read; take the file anew") from None


def _what_else(data: bytes) -> str:
    if not data.strip():
        return f"is empty; {_WANTED}"
    if b"PRIVATE KEY-----" in data:
        return f"has a private key and no certificate; {_WANTED}"
    if data[:1] == b"\x30":  # how DER begins
        return "is no PEM but DER, as it seems; `openssl x509 -inform der -in FILE -out FILE.pem` makes PEM of it"
    return f"has no certificate in PEM; {_WANTED}"
