"""Every operation of the API with the lowest role whose key opens it: add yours here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from servers.models import Role
from tests.access_rows import Things

DOCUMENT = """
name: Coder
engine: vllm
image: vllm/vllm-openai:v0.20.2
checkpoint: Qwen/Qwen3-8B
flags: [--max-model-len, "8192"]
"""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """As openapi.json names it. What it is asked with is understood: nobody gets 400 or 422."""

    name: str
    role: Role
    args: Mapping[str, str] = field(default_factory=dict)  # placeholders -> keys of Things
    body: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)  # -> keys of Things

    @property
    def method(self) -> str:
        return self.name.partition(" ")[0]

    def address(self, things: Things) -> str:
        filled = {name: things[key] for name, key in self.args.items()}
        path = "/api/v1" + self.name.partition(" ")[2].format(**filled)
        asked = "&".join(f"{name}={quote(str(things[key]))}" for name, key in self.query.items())
        return f"{path}?{asked}" if asked else path


BOX, SERVER, RUN = {"slug": "box"}, {"slug": "server"}, {"run_id": "run"}
JOB, DOWNLOAD, CLAIM = {"pk": "job"}, {"pk": "download"}, {"pk": "claim"}
OPERATIONS = [
    Operation(name="GET /boxes", role=Role.VIEWER),
    Operation(name="GET /boxes/{slug}", role=Role.VIEWER, args=BOX),
    Operation(name="GET /boxes/{slug}/models", role=Role.VIEWER, args=BOX),
    Operation(
        name="DELETE /boxes/{slug}/models", role=Role.EDITOR, args=BOX, query={"path": "model path"}
    ),
    Operation(name="GET /boxes/{slug}/images", role=Role.VIEWER, args=BOX),
    Operation(
        name="DELETE /boxes/{slug}/images", role=Role.ADMIN, args=BOX, query={"image": "image id"}
    ),
    Operation(name="GET /boxes/{slug}/images/newer", role=Role.VIEWER, args=BOX),
    Operation(name="POST /boxes/{slug}/images/newer", role=Role.OPERATOR, args=BOX),
    Operation(
        name="POST /boxes/{slug}/images/move",
        role=Role.EDITOR,
        args=BOX,
        body={"reference": "lmsysorg/sglang:latest", "to": "newer"},
    ),
    Operation(name="GET /image-jobs", role=Role.VIEWER),
    Operation(name="POST /image-jobs", role=Role.EDITOR, body={"reference": "vllm/other:v1"}),
    Operation(name="GET /image-jobs/{pk}", role=Role.VIEWER, args=JOB),
    Operation(name="POST /image-jobs/{pk}/cancel", role=Role.EDITOR, args=JOB),
    Operation(name="POST /image-jobs/{pk}/go-on", role=Role.EDITOR, args=JOB),
    Operation(name="GET /servers", role=Role.VIEWER),
    Operation(name="GET /servers/{slug}", role=Role.VIEWER, args=SERVER),
    Operation(name="GET /servers/{slug}/runs", role=Role.VIEWER, args=SERVER),
    Operation(name="GET /servers/{slug}/fit", role=Role.VIEWER, args=SERVER),
    Operation(name="POST /servers/{slug}/start", role=Role.OPERATOR, args=SERVER),
    Operation(name="POST /servers/{slug}/stop", role=Role.OPERATOR, args=SERVER),
    Operation(name="POST /servers/{slug}/restart", role=Role.OPERATOR, args=SERVER),
    Operation(name="GET /claims", role=Role.VIEWER),
    Operation(name="POST /claims", role=Role.OPERATOR, body={"server": "qwen3-8b", "hours": 2}),
    Operation(name="DELETE /claims/{pk}", role=Role.OPERATOR, args=CLAIM),
    Operation(name="GET /runs/{run_id}", role=Role.VIEWER, args=RUN),
    Operation(name="GET /runs/{run_id}/why", role=Role.VIEWER, args=RUN),
    Operation(name="GET /runs/{run_id}/log", role=Role.VIEWER, args=RUN),
    Operation(name="GET /downloads", role=Role.VIEWER),
    Operation(name="POST /downloads", role=Role.OPERATOR, body={"model": "Qwen/Qwen3-8B"}),
    Operation(name="GET /downloads/{pk}", role=Role.VIEWER, args=DOWNLOAD),
    Operation(name="POST /downloads/{pk}/pause", role=Role.OPERATOR, args=DOWNLOAD),
    Operation(name="POST /downloads/{pk}/resume", role=Role.OPERATOR, args=DOWNLOAD),
    Operation(name="POST /downloads/{pk}/cancel", role=Role.OPERATOR, args=DOWNLOAD),
    Operation(
        name="POST /downloads/{pk}/limit", role=Role.OPERATOR, args=DOWNLOAD, body={"limit": 5}
    ),
    Operation(name="GET /profiles", role=Role.VIEWER),
    Operation(name="GET /profiles/{slug}", role=Role.VIEWER, args=SERVER),
    Operation(
        name="GET /profiles/{slug}/export/{form}",
        role=Role.VIEWER,
        args={"slug": "server", "form": "form"},
    ),
    Operation(name="POST /profiles", role=Role.EDITOR, body={"document": DOCUMENT}),
    Operation(
        name="PUT /profiles/{slug}", role=Role.EDITOR, args=SERVER, body={"document": DOCUMENT}
    ),
]
