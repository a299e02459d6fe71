"""The demo: all of inferdash on simulated boxes. `python -m inferdash.demo`, or `make demo`.

Simulated are the GPUs (driver/), Docker Engine and the engines in its containers (simulation), and
the kernel's files of the boxes (box). Web, workers and watchers are the real ones.
"""
