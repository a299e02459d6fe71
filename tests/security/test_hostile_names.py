from urllib.parse import quote

from django.http import StreamingHttpResponse
from django.test import Client

from inferdash.urls import handler400, handler403
from servers.models import Secret, User
from tests import factories

assert handler400


assert handler403


# Untrusted text on our pages


def test_hostile_names_are_text_on_the_pages_of_people(client: Client) -> None:
    hostile = '<b data-hx-post="/logout/" hx-trigger="load">x</b>'
    User.objects.create(username=hostile)
    box = factories.box("rtx8")
    box.facts["limits"]["devices"] = [hostile]
    box.save()
    Secret.seal(hostile, "hf_one_value", None)
    client.post("/settings/people/999/role/", {"role": hostile})

    settings = ("", "people/", "secrets/", "boxes/", "boxes/rtx8/")
    pages = [f"/settings/{each}" for each in settings]
    for address in (*pages, "/activity/", f"/activity/?q={quote(hostile)}"):
        page = client.get(address)
        assert page.status_code == 200
        assert "<b data-hx" not in page.content.decode()


def test_no_page_of_people_has_scripts_or_styles_inside(client: Client) -> None:
    factories.box("rtx8")
    pages = [f"/settings/{each}" for each in ("", "people/", "secrets/", "boxes/rtx8/", "about/")]
    for address in (*pages, "/activity/", "/password/", "/login/", "/nothing/"):
        page = client.get(address).content.decode() if address != "/login/" else ""
        assert " style=" not in page
        assert "<style" not in page
        assert "onclick" not in page
        assert all("src=" in tag.split(">")[0] for tag in page.split("<script")[1:])


def test_a_csv_is_streamed_and_not_kept(client: Client) -> None:
    response = client.get("/activity.csv")

    assert isinstance(response, StreamingHttpResponse)
    assert response.headers["Cache-Control"] == "no-store"
