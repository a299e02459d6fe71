"""Cards of engines that are one cluster."""

from django import template

from servers import live
from servers.live import Cluster, RayWorker
from servers.models import Server

register = template.Library()


@register.simple_tag
def cluster_of(server: Server) -> Cluster | None:
    return live.cluster_of(server)


@register.simple_tag
def ray_workers(server: Server) -> tuple[RayWorker, ...]:
    return live.ray_workers(server)
