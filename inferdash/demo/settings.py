"""Settings of the demo: every page says that it is one, and who comes is logged in."""

from inferdash.settings import *  # noqa: F403 - all of them, but for what follows
from inferdash.settings import MIDDLEWARE as _USUAL

SIMULATED = True
_AFTER = "django.contrib.auth.middleware.AuthenticationMiddleware"
_AT = _USUAL.index(_AFTER) + 1
MIDDLEWARE = [*_USUAL[:_AT], "inferdash.demo.visitor.log_in", *_USUAL[_AT:]]
