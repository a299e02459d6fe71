"""Several boxes, each an installation of its own: hub, links and what they carry."""
