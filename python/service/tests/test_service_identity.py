from __future__ import annotations

import time
from typing import Any

import jwt
import pytest

from taskyard_service.errors import Unauthenticated
from taskyard_service.identity import Identity, Role, TokenVerifier, WeakSecret, current_identity, sign_token

SECRET = "s" * 32
ANNA = Identity("anna", "default", Role.OPERATOR)


class Wall:
    def __init__(self) -> None:
        self.ms = 1_000_000_000_000
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        return self.ms


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def verifier(wall: Wall) -> TokenVerifier:
    return TokenVerifier(SECRET, wall, cache_limit=3)


def token(**changes: Any) -> str:
    claims: dict[str, Any] = {"sub": "anna", "tenantID": "default", "role": "operator", "exp": 1_000_000_060}
    claims |= changes
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, SECRET, algorithm="HS256")


def refusal(verifier: TokenVerifier, authorization: str | None) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        verifier.identify(authorization)
    return caught.value


def test_a_signed_token_proves_who_calls(verifier: TokenVerifier) -> None:
    signed = sign_token(SECRET, ANNA, 1_000_000_060)
    assert verifier.identify(f"Bearer {signed}") == ANNA
    assert verifier.identify(f"bearer  {signed}") == ANNA
    assert verifier.verify(signed) == ANNA


def test_a_token_ends_on_time_even_when_it_is_remembered(verifier: TokenVerifier, wall: Wall) -> None:
    header = f"Bearer {token()}"
    verifier.identify(header)
    wall.ms = 1_000_000_059_999
    assert verifier.identify(header) == ANNA
    wall.ms += 1
    assert refusal(verifier, header).reason == "TOKEN_EXPIRED"
    assert refusal(verifier, header).reason == "TOKEN_EXPIRED"


def test_a_token_that_is_not_valid_yet_is_refused(verifier: TokenVerifier, wall: Wall) -> None:
    header = f"Bearer {token(nbf=1_000_000_010)}"
    assert "not valid yet" in refusal(verifier, header).message
    wall.ms += 10_000
    assert verifier.identify(header) == ANNA


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sub": None}, "`sub`"),
        ({"sub": ""}, "`sub`"),
        ({"tenantID": None}, "`tenantID`"),
        ({"tenantID": 7}, "`tenantID`"),
        ({"role": None}, "`role`"),
        ({"role": "root"}, "'root'; it must be one of: admin, operator, viewer, worker"),
        ({"exp": None}, "`exp`"),
        ({"exp": "soon"}, "`exp`"),
        ({"exp": True}, "`exp`"),
        ({"exp": float("nan")}, "`exp`"),
        ({"exp": float("inf")}, "`exp`"),
    ],
)
def test_every_claim_is_required_and_checked(verifier: TokenVerifier, changes: dict[str, Any], said: str) -> None:
    error = refusal(verifier, f"Bearer {token(**changes)}")
    assert error.reason == "TOKEN_INVALID"
    assert said in error.message


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", token(), "Bearer a.b.c", "Bearer \x00"])
def test_what_is_no_bearer_token_is_refused(verifier: TokenVerifier, header: str) -> None:
    assert refusal(verifier, header).reason == "TOKEN_INVALID"


def test_no_token_says_how_to_send_one(verifier: TokenVerifier) -> None:
    error = refusal(verifier, None)
    assert error.reason == "TOKEN_MISSING"
    for way in ("authorization: Bearer", "TASKYARD_TOKEN", "`taskyard token --role worker`"):
        assert way in error.message


@pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
def test_only_hs256_counts(verifier: TokenVerifier, algorithm: str) -> None:
    claims = {"sub": "anna", "tenantID": "default", "role": "admin", "exp": 1_000_000_060}
    forged = jwt.encode(claims, None if algorithm == "none" else "s" * 64, algorithm=algorithm)
    assert refusal(verifier, f"Bearer {forged}").reason == "TOKEN_INVALID"


def test_a_token_of_another_secret_is_refused_and_the_secret_not_shown(verifier: TokenVerifier) -> None:
    error = refusal(verifier, f"Bearer {sign_token('x' * 32, ANNA, 1_000_000_060)}")
    assert "another secret" in error.message
    assert SECRET not in error.message


@pytest.mark.parametrize("secret", ["", "short", "x" * 31])
def test_a_short_secret_is_refused_with_the_way_to_make_one(secret: str, wall: Wall) -> None:
    for use in (lambda: TokenVerifier(secret, wall), lambda: sign_token(secret, ANNA, 1)):
        with pytest.raises(WeakSecret, match="openssl rand -hex 32"):
            use()


def test_the_cache_is_bounded_and_forgets_the_oldest(verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = [f"Bearer {token(sub=f'p{n}')}" for n in range(5)]
    for header in headers:
        verifier.identify(header)
    decoded: list[str] = []
    real = jwt.decode

    def decode(text: str, *arguments: Any, **options: Any) -> Any:
        decoded.append(text)
        return real(text, *arguments, **options)

    monkeypatch.setattr(jwt, "decode", decode)
    for header in headers[2:]:
        verifier.identify(header)
    assert decoded == []
    verifier.identify(headers[0])
    assert decoded == [headers[0].removeprefix("Bearer ")]


def test_a_refused_token_is_not_remembered(verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(10):
        refusal(verifier, f"Bearer {token(sub=f'p{n}', role='root')}")
    header = f"Bearer {token()}"
    verifier.identify(header)
    monkeypatch.setattr(jwt, "decode", None)
    assert verifier.identify(header) == ANNA


def test_a_known_token_costs_about_a_microsecond() -> None:
    verifier = TokenVerifier(SECRET, lambda: 1_000_000_000_000)
    header = f"Bearer {token()}"
    verifier.identify(header)
    rounds, best_s = 20_000, 1.0
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(rounds):
            verifier.identify(header)
        best_s = min(best_s, (time.perf_counter() - begin) / rounds)
    # Measured: 0.3 us; checking anew costs 30 us or more. The bound leaves room for a slow machine.
    assert best_s < 5e-6


def test_outside_of_a_call_nobody_calls() -> None:
    with pytest.raises(Unauthenticated):
        current_identity()
