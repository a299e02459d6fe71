"""Hardware health, by the collector's samples alone. See docs/health.md."""
