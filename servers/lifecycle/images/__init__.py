"""Images of boxes: what lies there and who uses it, pulls, builds, newer builds, what may go."""
