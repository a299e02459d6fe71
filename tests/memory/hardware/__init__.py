"""Whether the hardware is well: what is read of it, and what is said of that."""
