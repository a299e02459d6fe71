"""The page context of boxes without servers: what was found on each, in a line."""

from dataclasses import dataclass

from django.db.models import Count

from servers.models import Box, ExternalEngine, StoredCheckpoint


@dataclass(frozen=True, kw_only=True)
class BoxSummary:
    slug: str
    gpus: int | None  # None: not reported yet
    docker: str  # version; "" where it cannot be used
    engines: int  # external ones that run
    models: int  # on its disks

    @property
    def words(self) -> str:
        """Of what is there; what is missing stands among the alerts."""
        counts = (
            (self.gpus or 0, "GPU", "GPUs"),
            (self.engines, "engine running", "engines running"),
            (self.models, "model on disk", "models on disk"),
        )
        said = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
        if self.docker:
            said.insert(1 if self.gpus else 0, f"Docker {self.docker}")
        return " · ".join(said)


def list_summaries() -> list[BoxSummary]:
    """In as many queries for eight boxes as for one."""
    running = ExternalEngine.objects.filter(has_ended=False).order_by()
    engines = dict(running.values_list("box").annotate(Count("pk")))
    models = dict(StoredCheckpoint.objects.order_by().values_list("box").annotate(Count("pk")))
    return [
        BoxSummary(
            slug=box.slug,
            gpus=None if box.gpus is None else len(box.gpus),
            docker=str(box.facts.get("docker", {}).get("version", "")),
            engines=engines.get(box.pk, 0),
            models=models.get(box.pk, 0),
        )
        for box in Box.objects.all()
    ]
