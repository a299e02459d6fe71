"""Links of further boxes: tokens to join with, and words by which people compare two sides."""
