"""The wire between the hub and further boxes: what `make up BOXES=1` and `make join` set up and run."""
