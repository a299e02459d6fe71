"""The Django app."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings


class ServersConfig(AppConfig):
    name = "servers"

    def ready(self) -> None:
        from django.contrib.auth.models import update_last_login
        from django.contrib.auth.signals import user_logged_in

        from servers.state import samples

        def note(**said: Any) -> None:
            with samples.unless_full():
                update_last_login(**said)

        # In place of Django's own, which shuts people out while the disk is full.
        user_logged_in.disconnect(dispatch_uid="update_last_login")
        user_logged_in.connect(note, dispatch_uid="note_last_login", weak=False)
        if settings.WIRE == "box":
            from servers.lifecycle.links import grants

            grants.leave_out_hidden_columns()
