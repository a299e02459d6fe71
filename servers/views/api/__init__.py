"""The JSON API for programs and the terminal, by a person's key."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from servers.views.api.alerts import router as alerts
from servers.views.api.benchmarks import router as benchmarks
from servers.views.api.boxes import claim_router as claims
from servers.views.api.boxes import router as boxes
from servers.views.api.canaries import router as canaries
from servers.views.api.downloads import router as downloads
from servers.views.api.images import router as images
from servers.views.api.links import router as links
from servers.views.api.operations import BoundedParser, register
from servers.views.api.profiles import router as profiles
from servers.views.api.servers import router as servers
from servers.views.api.servers import run_router as runs
from servers.views.api.trials import router as trials

__all__ = ["api", "urls"]

# As the middleware no_nul refuses it, before any operation is asked.
_NO_NUL = r"^[^\u0000]*$"


class DescribedAPI(NinjaAPI):
    def get_openapi_schema(self, **asked: Any) -> OpenAPISchema:
        """Ninja's, in which texts of addresses say that they hold no NUL."""
        found = super().get_openapi_schema(**asked)
        for operations in found["paths"].values():
            for operation in operations.values():
                for parameter in operation["parameters"]:
                    schema = parameter["schema"].get("items", parameter["schema"])
                    if schema.get("type") == "string" and not {"enum", "format"} & schema.keys():
                        schema.setdefault("pattern", _NO_NUL)
        return found


api = DescribedAPI(
    title="inferdash",
    version="1",
    description=(
        "Boxes, servers, runs with their logs, images and profiles of one inferdash. Every request needs "
        "a key: Authorization: Bearer ifd_… People make keys on their page “Keys”. Sizes are "
        "bytes, times are RFC 3339."
    ),
    docs_url=None,  # its page loads scripts from elsewhere, which a box without internet cannot
    urls_namespace="api",
    parser=BoundedParser(),
)
api.add_router("/boxes", boxes, tags=["boxes"])
api.add_router("/links", links, tags=["links"])
api.add_router("/servers", servers, tags=["servers"])
api.add_router("/claims", claims, tags=["claims"])
api.add_router("/runs", runs, tags=["runs"])
api.add_router("/profiles", profiles, tags=["profiles"])
api.add_router("/alerts", alerts, tags=["alerts"])
api.add_router("/downloads", downloads, tags=["downloads"])
api.add_router("/benchmarks", benchmarks, tags=["benchmarks"])
api.add_router("/canaries", canaries, tags=["canaries"])
api.add_router("/trials", trials, tags=["trials"])
api.add_router("", images, tags=["images"])
register(api)

# Keys open these, not the cookie of who is logged in: else any page that somebody has open could
# act in their name. What it describes itself as is the same for everybody.
urls = api.urls
for pattern in urls[0]:
    if pattern.callback is not None:
        login_not_required(pattern.callback)
