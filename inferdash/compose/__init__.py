"""Helpers of docker-compose.yml: the database's role, its password, pinned images."""
