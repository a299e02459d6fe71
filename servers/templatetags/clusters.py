"""Cards of engines that are one cluster."""

from django import template

from servers.contexts.external import workloads
from servers.contexts.external.workloads import Cluster, RayWorker
from servers.models import Server

register = template.Library()


@register.simple_tag
def cluster_of(server: Server) -> Cluster | None:
    return workloads.cluster_of(server)


@register.simple_tag
def ray_workers(server: Server) -> tuple[RayWorker, ...]:
    return workloads.ray_workers(server)
