"""Alert cases from facts alone: what they say, when they begin and end."""
