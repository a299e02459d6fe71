"""Links between the hub and further boxes: OpenSSH, its files, and what it carries."""
