"""Who calls: the identity that a token proves, and the making and checking of such tokens (JWT, HS256).

Not who may do what to which method: that is access.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import jwt

from taskyard_service.errors import Unauthenticated

SECRET_MIN_BYTES = 32
"""HS256 is as strong as its key, and a key shorter than the hash is weaker than it."""
CACHE_LIMIT = 10_000
"""Verified tokens remembered at once."""
ALGORITHM = "HS256"
SCHEME = "Bearer "


class Role(StrEnum):
    """What kind of caller a token is for.

    `admin` may call everything. `operator` reads, submits, cancels, and changes definitions. `viewer` only
    reads. `worker` only takes tasks and reports on them.
    """

    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls, as a verified token says.

    Attributes:
        subject: Name of the person or program.
        tenant: Whose data the call sees and changes.
        role: What kind of caller it is.
    """

    subject: str
    tenant: str
    role: Role


class WeakSecret(ValueError):
    """The secret that signs tokens is too short to protect anything."""


CURRENT: ContextVar[Identity] = ContextVar("taskyard_identity")
"""Set by the auth interceptor for the time of one call."""


def current_identity() -> Identity:
    """Returns who makes the call that runs now.

    Raises:
        Unauthenticated: The call came in without a token (open methods), or no call runs.
    """
    identity = CURRENT.get(None)
    if identity is None:
        raise Unauthenticated("TOKEN_MISSING", "this needs to know who calls, and the call carries no token")
    return identity


def check_secret(secret: str) -> bytes:
    """Returns the secret's bytes.

    Raises:
        WeakSecret: It has fewer than 32 bytes; the message says how to make one.
    """
    key = secret.encode()
    if len(key) < SECRET_MIN_BYTES:
        raise WeakSecret(
            f"TASKYARD_SECRET has {len(key)} bytes and needs at least {SECRET_MIN_BYTES}: with fewer, tokens"
            " can be forged. Make one with `openssl rand -hex 32` and set it for every process"
        )
    return key


def sign_token(secret: str, identity: Identity, expires_at_s: int) -> str:
    """Returns a token that proves `identity` until `expires_at_s` (Unix seconds).

    Raises:
        WeakSecret: The secret has fewer than 32 bytes.
    """
    claims = {
        "sub": identity.subject,
        "tenantID": identity.tenant,
        "role": identity.role.value,
        "exp": expires_at_s,
    }
    return jwt.encode(claims, check_secret(secret), algorithm=ALGORITHM)


class TokenVerifier:
    """Checks tokens against one secret and remembers those it has found good until they expire.

    Args:
        secret: Signs and checks tokens; at least 32 bytes.
        wall: Returns the time, Unix milliseconds.

    Raises:
        WeakSecret: The secret has fewer than 32 bytes.
    """

    def __init__(self, secret: str, wall: Callable[[], int], cache_limit: int = CACHE_LIMIT) -> None:
        self._key = check_secret(secret)
        self._wall = wall
        self._cache_limit = cache_limit
        self._verified: dict[str, tuple[Identity, int]] = {}

    def identify(self, authorization: str | None) -> Identity:
        """Returns who an `authorization` header of the form `Bearer <token>` proves.

        On every call's path: a header seen before costs one dictionary look-up and one look at the clock.

        Raises:
            Unauthenticated: There is no header, it has another form, or its token is bad or expired.
        """
        if authorization is None:
            raise Unauthenticated(
                "TOKEN_MISSING",
                "the call carries no token: the command and workers take it from TASKYARD_TOKEN, and `taskyard token` "
                "makes one (`taskyard token --role worker` one for a worker); over HTTP send "
                "`authorization: Bearer <token>`",
            )
        known = self._verified.get(authorization)
        if known is not None and self._wall() < known[1]:
            return known[0]
        return self._identify_anew(authorization)

    def verify(self, token: str) -> Identity:
        """Returns who the token proves, checking it anew.

        Raises:
            Unauthenticated: The token is bad or expired.
        """
        return self._check(token)[0]

    def _identify_anew(self, authorization: str) -> Identity:
        self._verified.pop(authorization, None)
        if authorization[: len(SCHEME)].lower() != SCHEME.lower():
            raise _invalid("the authorization header is not of the form `Bearer <token>`")
        identity, expires_at_ms = self._check(authorization[len(SCHEME) :].strip())
        if len(self._verified) >= self._cache_limit:
            del self._verified[next(iter(self._verified))]
        self._verified[authorization] = (identity, expires_at_ms)
        return identity

    def _check(self, token: str) -> tuple[Identity, int]:
        claims = self._decode(token)
        identity = Identity(_text(claims, "sub"), _text(claims, "tenantID"), _role(claims))
        expires_at_ms = _milliseconds(claims, "exp")
        now_ms = self._wall()
        if now_ms >= expires_at_ms:
            raise Unauthenticated("TOKEN_EXPIRED", "the token has expired; get a new one")
        if "nbf" in claims and now_ms < _milliseconds(claims, "nbf"):
            raise _invalid("the token is not valid yet (nbf); compare the clocks of the two machines")
        return identity, expires_at_ms

    def _decode(self, token: str) -> dict[str, Any]:
        # Times are checked by us, against the injected clock.
        unchecked = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
        try:
            return jwt.decode(token, self._key, algorithms=[ALGORITHM], options=unchecked)  # type: ignore[arg-type]
        except jwt.InvalidSignatureError as error:
            raise _invalid(
                "the token was signed with another secret; the processes must share one TASKYARD_SECRET"
            ) from error
        except jwt.InvalidTokenError as error:
            raise _invalid(f"the token cannot be read ({error}); it must be a JWT signed with HS256") from error


def _invalid(sentence: str) -> Unauthenticated:
    return Unauthenticated("TOKEN_INVALID", sentence)


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise _invalid(f"the token's claim `{name}` is missing or no text; sign one that has it")
    return value


def _role(claims: dict[str, Any]) -> Role:
    value = _text(claims, "role")
    try:
        return Role(value)
    except ValueError:
        known = ", ".join(Role)
        raise _invalid(f"the token's role is {value[:40]!r}; it must be one of: {known}") from None


def _milliseconds(claims: dict[str, Any], name: str) -> int:
    value = claims.get(name)
    # A bool is an int to Python, and NaN compares false to everything: neither is a time.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise _invalid(f"the token's claim `{name}` is missing or no number of Unix seconds; sign one that has it")
    return int(value * 1_000)
