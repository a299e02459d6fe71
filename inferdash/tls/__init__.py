"""Certificates: those that an admin has, and those of an authority of inferdash's own."""
