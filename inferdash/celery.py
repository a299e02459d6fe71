"""The Celery app. Tasks are nudges that carry ids; what is to be done stands in the database."""

import os
import warnings

from celery import Celery
from celery.platforms import SecurityWarning

from inferdash import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")

# Ten lines at each start of root's; what a worker of root may do is told in SECURITY.md.
warnings.simplefilter("ignore", SecurityWarning)
broker.use()
app = Celery("inferdash")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
