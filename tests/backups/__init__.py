"""Backups: what they keep, what they refuse, and that they come back."""
