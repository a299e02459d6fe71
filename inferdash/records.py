"""What of a log record is worth reading."""

import logging

SERVER_FAULT = 500


class WithoutVisitorsFaults(logging.Filter):
    """Takes the traceback off what a visitor did wrong: an unknown host, a role too low.

    Django logs each with one, so that anybody could fill the log, and hide in it what matters.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", SERVER_FAULT)
        if status < SERVER_FAULT and record.name.startswith(("django.request", "django.security")):
            record.exc_info = record.exc_text = None
        return True
