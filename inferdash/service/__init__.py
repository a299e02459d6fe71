"""`make install`: inferdash as services of systemd. Python's library alone, but for `snapshot`."""
