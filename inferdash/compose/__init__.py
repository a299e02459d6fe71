"""What docker-compose.yml needs beside the image: the database's role, its password, pinned images."""
