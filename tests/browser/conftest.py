"""What the walks through an installation of their own begin with."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import chromium, new_page
from tests.browser.steps import log_in
from tests.installation import Installation, installation
from tests.nvml import profiles
from tests.web_stack import WebStack, web_stack


@pytest.fixture(scope="module")
def stack() -> Iterator[WebStack]:
    with web_stack() as stack:
        yield stack


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def place(docker_host: str) -> Iterator[Installation]:
    with installation(docker_host, profiles.rtx_pro_6000()) as made:
        yield made


@pytest.fixture
def page(place: Installation) -> Iterator[Page]:
    """Its first admin's, in whichever of the tests that comes first: no complaint of the browser."""
    complaints: list[str] = []
    with chromium() as browser:
        page = new_page(browser.new_context(), complaints)
        log_in(page, place)
        yield page
    assert complaints == []
