"""Sizes of the windows in which pages are looked at."""

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
