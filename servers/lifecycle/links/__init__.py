"""Links of further boxes: who may join, who has, and who no longer may."""
