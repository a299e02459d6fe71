"""Whether a launch fits into the memory of a box's GPUs, before it is tried."""
