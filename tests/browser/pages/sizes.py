"""Sizes of the windows in which pages are looked at."""

from playwright.sync_api import ViewportSize

DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
PAPER: ViewportSize = {"width": 720, "height": 1000}  # A4 within its margins
