"""Say what would stop a start of a profile, and what would help. Exit code 1: it would be stopped."""

import json
from argparse import ArgumentParser
from typing import Any

import redis
from django.core.management.base import CommandError

from servers import tasks
from servers.judge.profiles.preflight import WORDS
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.profiles.preflight import PreflightResult
from servers.management.database import DatabaseCommand
from servers.models import Server

ANSWERS_WITHIN = 4  # seconds
STOPPED = 1


class Command(DatabaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("profile", help="as in the address of its page")
        parser.add_argument("--box", help="only there; else on every box that it is placed on")
        parser.add_argument("--json", action="store_true", help="print one JSON object a server")

    def handle(self, *args: Any, **options: Any) -> None:
        found = Server.objects.filter(profile__slug=options["profile"], profile__archived_at=None)
        found = found.exclude(profile__current=None).select_related("profile__current", "box")
        if options["box"]:
            found = found.filter(box__slug=options["box"])
        servers = list(found.order_by("box__slug", "slug"))
        if not servers:
            where = f" on the box {options['box']}" if options["box"] else ""
            raise CommandError(
                f"There is no profile {options['profile']}{where}. Its name is the last part of "
                "its page's address.",
                returncode=2,
            )
        checked = [(server, self._check_server(server)) for server in servers]
        for server, told in checked:
            if options["json"]:
                about = {"server": server.slug, "box": server.box.slug}
                self.stdout.write(json.dumps(about | told.to_json(), ensure_ascii=False))
            else:
                self.stdout.write(_readable(server, told))
        if not all(told.may_start for _server, told in checked):
            raise SystemExit(STOPPED)

    def _check_server(self, server: Server) -> PreflightResult:
        context = LaunchContext.of_server(server)
        if not server.box.is_silent and context.folders is None:
            try:
                tasks.ask_for_paths(server.box, context.needed_paths)
                context.wait_for_answer(context.paths_question, seconds=ANSWERS_WITHIN)
            except redis.RedisError as error:
                self.stderr.write(f"Which folders are there is not known: Redis is away: {error}")
        return preflight.check(context)


def _readable(server: Server, told: PreflightResult) -> str:
    words = WORDS | {"error": "ERROR"}
    verdict = "may start" if told.may_start else "STOPPED"
    lines = [f"{server.slug} on {server.box}: {verdict} ({told.summary})"]
    for item in told.items:
        lines.append(f"  {words[item.level]:<10} {item.title}: {item.says}")
        if item.remedy:
            lines.append(f"  {'':<10} → {item.remedy}")
    for each in told.findings:
        if each.severity != "info":
            word = words["error" if each.severity == "error" else "warning"]
            lines.append(f"  {word:<10} {each.about}: {each.says}")
    return "\n".join(lines)
