"""Every operation of the API with the permission that its key needs: add yours here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from servers.models import Permission
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
    needs: Permission
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
RESULT = {"pk": "result"}
CANARY = {"pk": "canary"}
ASKING, JOINED = {"pk": "asking"}, {"pk": "joined"}
TRIAL = {"pk": "trial"}
OPERATIONS = [
    Operation(name="GET /links", needs=Permission.ADMINISTER),
    Operation(name="POST /links/invitations", needs=Permission.ADMINISTER),
    Operation(name="POST /links/{pk}/let-in", needs=Permission.ADMINISTER, args=ASKING),
    Operation(name="POST /links/{pk}/refuse", needs=Permission.ADMINISTER, args=ASKING),
    Operation(name="POST /links/{pk}/revoke", needs=Permission.ADMINISTER, args=JOINED),
    Operation(name="POST /links/{pk}/release", needs=Permission.ADMINISTER, args=JOINED),
    Operation(name="POST /links/{pk}/bring-up", needs=Permission.ADMINISTER, args=JOINED),
    Operation(name="GET /links/{pk}/bring-up", needs=Permission.ADMINISTER, args=JOINED),
    Operation(name="GET /boxes", needs=Permission.VIEW),
    Operation(name="GET /boxes/{slug}", needs=Permission.VIEW, args=BOX),
    Operation(name="GET /boxes/{slug}/models", needs=Permission.VIEW, args=BOX),
    Operation(
        name="DELETE /boxes/{slug}/models",
        needs=Permission.EDIT,
        args=BOX,
        query={"path": "model path"},
    ),
    Operation(name="GET /boxes/{slug}/images", needs=Permission.VIEW, args=BOX),
    Operation(
        name="DELETE /boxes/{slug}/images",
        needs=Permission.ADMINISTER,
        args=BOX,
        query={"image": "image id"},
    ),
    Operation(name="GET /boxes/{slug}/images/newer", needs=Permission.VIEW, args=BOX),
    Operation(name="POST /boxes/{slug}/images/newer", needs=Permission.OPERATE, args=BOX),
    Operation(
        name="POST /boxes/{slug}/images/move",
        needs=Permission.EDIT,
        args=BOX,
        body={"reference": "lmsysorg/sglang:latest", "to": "newer"},
    ),
    Operation(name="GET /image-jobs", needs=Permission.VIEW),
    Operation(name="POST /image-jobs", needs=Permission.EDIT, body={"reference": "vllm/other:v1"}),
    Operation(name="GET /image-jobs/{pk}", needs=Permission.VIEW, args=JOB),
    Operation(name="POST /image-jobs/{pk}/cancel", needs=Permission.EDIT, args=JOB),
    Operation(name="POST /image-jobs/{pk}/go-on", needs=Permission.EDIT, args=JOB),
    Operation(name="GET /servers", needs=Permission.VIEW),
    Operation(name="GET /servers/{slug}", needs=Permission.VIEW, args=SERVER),
    Operation(name="GET /servers/{slug}/runs", needs=Permission.VIEW, args=SERVER),
    Operation(name="GET /servers/{slug}/fit", needs=Permission.VIEW, args=SERVER),
    Operation(name="POST /servers/{slug}/start", needs=Permission.OPERATE, args=SERVER),
    Operation(name="POST /servers/{slug}/stop", needs=Permission.OPERATE, args=SERVER),
    Operation(name="POST /servers/{slug}/restart", needs=Permission.OPERATE, args=SERVER),
    Operation(name="GET /alerts", needs=Permission.VIEW, query={"box": "box"}),
    Operation(name="GET /claims", needs=Permission.VIEW),
    Operation(
        name="POST /claims", needs=Permission.OPERATE, body={"server": "qwen3-8b", "hours": 2}
    ),
    Operation(name="DELETE /claims/{pk}", needs=Permission.OPERATE, args=CLAIM),
    Operation(name="GET /runs/{run_id}", needs=Permission.VIEW, args=RUN),
    Operation(name="GET /runs/{run_id}/why", needs=Permission.VIEW, args=RUN),
    Operation(name="GET /runs/{run_id}/log", needs=Permission.VIEW, args=RUN),
    Operation(name="GET /downloads", needs=Permission.VIEW),
    Operation(name="POST /downloads", needs=Permission.OPERATE, body={"model": "Qwen/Qwen3-8B"}),
    Operation(name="GET /downloads/{pk}", needs=Permission.VIEW, args=DOWNLOAD),
    Operation(name="POST /downloads/{pk}/pause", needs=Permission.OPERATE, args=DOWNLOAD),
    Operation(name="POST /downloads/{pk}/resume", needs=Permission.OPERATE, args=DOWNLOAD),
    Operation(name="POST /downloads/{pk}/cancel", needs=Permission.OPERATE, args=DOWNLOAD),
    Operation(
        name="POST /downloads/{pk}/limit",
        needs=Permission.OPERATE,
        args=DOWNLOAD,
        body={"limit": 5},
    ),
    Operation(name="GET /benchmarks", needs=Permission.VIEW),
    Operation(name="POST /benchmarks", needs=Permission.OPERATE, body={"server": "qwen3-8b"}),
    Operation(name="GET /benchmarks/{pk}", needs=Permission.VIEW, args=RESULT),
    Operation(name="POST /benchmarks/{pk}/stop", needs=Permission.OPERATE, args=RESULT),
    Operation(
        name="GET /benchmarks/{pk}/compare/{other}",
        needs=Permission.VIEW,
        args={"pk": "result", "other": "result"},
    ),
    Operation(
        name="GET /benchmarks/{pk}/export/{form}",
        needs=Permission.VIEW,
        args={"pk": "result", "form": "result form"},
    ),
    Operation(
        name="GET /benchmarks/hours/{server}", needs=Permission.VIEW, args={"server": "server"}
    ),
    Operation(name="GET /trials", needs=Permission.VIEW),
    Operation(name="POST /trials", needs=Permission.OPERATE, body={"server": "qwen3-8b"}),
    Operation(name="GET /trials/{pk}", needs=Permission.VIEW, args=TRIAL),
    Operation(name="POST /trials/{pk}/keep", needs=Permission.OPERATE, args=TRIAL),
    Operation(name="POST /trials/{pk}/back", needs=Permission.OPERATE, args=TRIAL),
    Operation(name="GET /canaries", needs=Permission.VIEW),
    Operation(name="POST /canaries", needs=Permission.OPERATE, body={"server": "qwen3-8b"}),
    Operation(name="GET /canaries/{pk}", needs=Permission.VIEW, args=CANARY),
    Operation(name="POST /canaries/{pk}/stop", needs=Permission.OPERATE, args=CANARY),
    Operation(name="POST /canaries/{pk}/accept", needs=Permission.EDIT, args=CANARY),
    Operation(name="GET /profiles", needs=Permission.VIEW),
    Operation(name="POST /profiles/{slug}/start", needs=Permission.OPERATE, args=SERVER),
    Operation(name="GET /profiles/{slug}", needs=Permission.VIEW, args=SERVER),
    Operation(
        name="GET /profiles/{slug}/export/{form}",
        needs=Permission.VIEW,
        args={"slug": "server", "form": "form"},
    ),
    Operation(name="POST /profiles", needs=Permission.EDIT, body={"document": DOCUMENT}),
    Operation(
        name="PUT /profiles/{slug}", needs=Permission.EDIT, args=SERVER, body={"document": DOCUMENT}
    ),
]
