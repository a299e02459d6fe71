"""A run's log, as chunks of numbered lines."""

from django.db import models

from servers.models.run import Run


class LogChunk(models.Model):
    """Lines first..first+count-1 of a run, compressed. Lines are numbered from 1."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_chunks")
    first = models.PositiveIntegerField()
    count = models.PositiveIntegerField()
    # zlib; one record a line: "<RFC 3339 timestamp> <o|e> <text>"
    body = models.BinaryField()

    class Meta:
        ordering = ["first"]
        constraints = [models.UniqueConstraint(fields=["run", "first"], name="one_chunk_a_line")]
