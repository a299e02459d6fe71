"""State in Redis: values that can all be read again, kept for pages and other processes."""
