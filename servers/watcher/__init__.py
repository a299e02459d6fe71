"""What a box does all day: Docker's events, logs, probes, GPU samples, and whatever a lost
nudge left undone. One process a box, apart from the worker, so that neither can block the
other; everything it knows it can read again after a restart."""
