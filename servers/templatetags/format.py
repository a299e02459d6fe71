"""How figures read in a page: GiB, durations, ages."""

from django import template

register = template.Library()
