"""What openapi.json promises holds for requests that nobody thought of."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.api.rows import OPERATIONS
from tests.installation import Installation, installation
from tests.nvml import profiles

pytestmark = pytest.mark.docker

WITH_DOCUMENTS = (
    "POST /api/v1/profiles",
    "PUT /api/v1/profiles/{slug}",
    "POST /api/v1/downloads",
    "POST /api/v1/image-jobs",
)


@pytest.fixture(scope="module")
def place(docker_host: str) -> Iterator[Installation]:
    """Its own: what was asked of it, pulls and downloads of anything, may go on afterwards."""
    with installation(docker_host, profiles.rtx_pro_6000()) as made:
        yield made


@pytest.mark.takes(90)
def test_answers_are_as_described(place: Installation, token: str) -> None:
    described = schemathesis.openapi.from_url(f"{place.url}/api/v1/openapi.json")
    tried = set()
    for found in described.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        tried.add(f"{operation.method.upper()} {operation.path.removeprefix('/api/v1')}")
        try_all(operation, {"Authorization": f"Bearer {token}"})
    assert tried == {each.name for each in OPERATIONS}


def try_all(operation: Any, headers: dict[str, str]) -> None:
    # No schema says what is a profile's document, or a model's name: most texts are refused, and
    # rightly.
    without = [positive_data_acceptance] if operation.label in WITH_DOCUMENTS else []

    # Of what only has a name or a number in its path, the fifth is refused as the fourth was.
    examples = 12 if operation.body or operation.query else 4

    @settings(max_examples=examples)
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(headers=headers, timeout=60, excluded_checks=without)

    ask()
