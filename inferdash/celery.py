"""The Celery app. Tasks are nudges that carry ids; what is to be done stands in the database."""

import os

from celery import Celery

from inferdash import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")

broker.use()
app = Celery("inferdash")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
