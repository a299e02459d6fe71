"""On the path of the demo's watchers, so that `import pynvml` finds the simulated one here."""
