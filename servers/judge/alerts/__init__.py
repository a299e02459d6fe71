"""What a person should be told of, from facts alone: cases, and when they begin and end."""
