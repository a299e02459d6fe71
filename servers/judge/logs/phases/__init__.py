"""Phases of a start, by what the engine logs."""
