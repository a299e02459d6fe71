"""The Django app of the project."""

from django.apps import AppConfig


class InferdashConfig(AppConfig):
    name = "inferdash"

    def ready(self) -> None:
        # Tasks are sent through the app that was made last: make ours wherever Django runs,
        # and nowhere else, so that `make up` does not carry Celery in its own memory.
        from inferdash import celery  # noqa: F401
