"""The Celery app, and its Redis, in which a message that is none is dropped and told.

Tasks are nudges that carry ids; what is to be done stands in the database. kombu reads what lies in
a queue as JSON of its own shape and lets every error through: one push of anything else would end
the worker, and one a second would keep it from working at all.
"""

import logging
import os
import warnings
from collections.abc import Mapping
from queue import Empty
from typing import Any

from celery import Celery
from celery.exceptions import SecurityWarning
from kombu.transport import TRANSPORT_ALIASES, redis

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")

log = logging.getLogger(__name__)

# For each scheme of an address that Celery may be given.
_SCHEMES = ("redis", "rediss")
_SHOWN = 200  # characters of a reason


class Channel(redis.Channel):
    connection: "Transport"

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except Empty:
            raise
        except Exception as error:
            # What JSON and its shape can be wrong in is not for us to list: one that is missed would
            # end the worker. Redis's own errors go on; the log tells of the others.
            if self.connection.is_of_redis(error):
                raise
            _tell(error)
            raise Empty from None


class Transport(redis.Transport):
    Channel = Channel

    def is_of_redis(self, error: Exception) -> bool:
        """kombu counts KeyError among them, which is what a message without an id raises: the
        worker would connect anew for each."""
        known = (*self.connection_errors, *self.channel_errors)
        return isinstance(error, known) and not isinstance(error, KeyError)

    def _deliver(self, message: Any, queue: str | None) -> None:
        """Called with what has been read as JSON."""
        if (fault := _fault(message)) is not None:
            _tell(fault)
            return
        try:
            super()._deliver(message, queue)
        except Exception as error:
            # The same of what Celery makes of it.
            if self.is_of_redis(error):
                raise
            _tell(f"{type(error).__name__}: {error}")
            self._forget(message["properties"]["delivery_tag"])

    def _forget(self, tag: str) -> None:
        """It would count as being worked on, and some of those stop the worker."""
        for channel in self.channels or ():
            if tag in (channel.qos._delivered or ()):
                channel.basic_reject(tag, requeue=False)


def _fault(message: Any) -> str | None:
    """What is no message of Celery's; None for one."""
    properties = message.get("properties") if isinstance(message, Mapping) else None
    if not isinstance(properties, Mapping):
        return "it has no properties"
    if not isinstance(properties.get("delivery_tag"), str):
        return "it has no delivery tag"
    info = properties.get("delivery_info")
    if not isinstance(info, Mapping) or not {"exchange", "routing_key"} <= info.keys():
        return "it says not where it was sent to"
    if not isinstance(message.get("headers"), Mapping):
        return "it has no headers"
    if not isinstance(message.get("body"), str) or properties.get("body_encoding") != "base64":
        return "its body is no text"
    return None


def _tell(why: object) -> None:
    log.warning("A message in Redis is none of inferdash's and was dropped: %s", str(why)[:_SHOWN])


def use() -> None:
    """Have Celery take this one for Redis."""
    for scheme in _SCHEMES:
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"


# Ten lines at each start of root's; what a worker of root may do is told in SECURITY.md.
warnings.simplefilter("ignore", SecurityWarning)
use()
app = Celery("inferdash")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
