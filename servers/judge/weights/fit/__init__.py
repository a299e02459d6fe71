"""The memory fit of a launch on a box's GPUs, before it is tried."""
