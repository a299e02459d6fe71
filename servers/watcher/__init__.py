"""The watcher of a box: Docker's events, logs, probes, GPU samples, and reconciliation.

One process a box, apart from the worker, so that neither can block the other; everything it knows
it can read again after a restart.
"""
