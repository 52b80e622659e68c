"""Requests made from the OpenAPI document, good and bad ones, against a real scheduler: none is answered with a 5xx."""

from __future__ import annotations

import json
import os
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from e2e.http_calls import BINDINGS
from e2e.site import Site
from taskyard_service.identity import Role

EXAMPLES = int(os.environ.get("EXAMPLES", "6"))
"""Requests of each kind for each call; more of them on demand."""
BY_HAND = {f"/taskyard.ArtifactService/{name}Bytes" for name in ("UploadArtifact", "DownloadArtifact")}
"""What the document has beside the contract's calls."""


@pytest.fixture(scope="module")
def document(shared_processes: Site) -> Any:
    headers = {"authorization": f"Bearer {shared_processes.token(Role.ADMIN)}"}
    answer = httpx.get(f"http://127.0.0.1:{shared_processes.http_port}/api/v1/openapi.json", headers=headers)
    assert answer.status_code == 200
    return schemathesis.openapi.from_dict(answer.json())


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("name", sorted({b.method.name.replace(".v1", "") for b in BINDINGS} | BY_HAND))
def test_no_request_is_answered_with_a_5xx(shared_processes: Site, document: Any, name: str, mode: str) -> None:
    _, service, method = name.replace(".", "/").rsplit("/", 2)
    operation = document.find_operation_by_id(f"{service}_{method}")
    base = f"http://127.0.0.1:{shared_processes.http_port}"
    headers = {"authorization": f"Bearer {shared_processes.token(Role.ADMIN)}"}
    generation = schemathesis.GenerationMode(mode)

    @given(operation.as_strategy(generation_mode=generation))
    @settings(
        max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], database=None, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )  # fmt: skip
    def check(case: Any) -> None:
        answer = case.call(base_url=base, headers=headers, timeout=30)
        assert answer.status_code < 500, (answer.status_code, answer.text, case.as_curl_command())
        if answer.status_code >= 400 and answer.content:
            status = json.loads(answer.content)
            assert status["code"]
            assert status["message"]
            assert status["details"]

    check()
