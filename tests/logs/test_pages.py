import gzip

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client

from tests import factories
from tests.logs.store import AT, append

# Download


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_the_download_is_the_whole_log(async_client: AsyncClient) -> None:
    run = await sync_to_async(lambda: factories.run(factories.server(factories.box())))()
    await sync_to_async(append)(run, 6000, 0, "\x1b[32mline {}\x1b[0m")
    await async_client.aforce_login(await sync_to_async(factories.person)())

    async def download(query: str = "", kind: str = "text/plain; charset=utf-8") -> bytes:
        response = await async_client.get(f"/runs/{run.pk}/log/{query}")
        assert response["Content-Type"] == kind
        assert "attachment" in response["Content-Disposition"]
        return b"".join([part async for part in response])  # type: ignore[attr-defined]

    whole = (await download()).decode()
    assert whole == "".join(f"line {n}\n" for n in range(1, 6001))
    raw = (await download("?raw&timestamps")).decode()
    assert raw.startswith(f"{AT} \x1b[32mline 1\x1b[0m\n")
    packed = await download("?gz", "application/gzip")
    assert gzip.decompress(packed).decode() == whole


@pytest.mark.django_db
def test_a_line_of_a_run_has_an_address_for_ever(client: Client) -> None:
    run = factories.run(factories.server(factories.box()))
    client.force_login(factories.person())

    response = client.get(f"/runs/{run.pk}/")

    assert response.status_code == 302
    assert response["Location"] == f"/servers/{run.server.slug}/?run={run.pk}"
    assert client.get("/runs/999999/").status_code == 404
