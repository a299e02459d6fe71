"""Sizes of the windows in which pages are looked at."""

DESK = {"width": 1440, "height": 900}

from playwright.sync_api import ViewportSize

PHONE: ViewportSize = {"width": 390, "height": 844}
PAPER: ViewportSize = {"width": 720, "height": 1000}  # A4 within its margins
