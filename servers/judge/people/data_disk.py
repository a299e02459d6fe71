"""The room that the disk of inferdash's data folder must have."""

from servers.judge.messages import say

# Bytes, and the share of the disk: whichever is less.
LOW, LOW_SHARE = 2**30, 0.05
FULL, FULL_SHARE = 64 * 2**20, 0.005

SUBJECT = "data-folder"  # of the alert


def is_low(free: float, total: int) -> bool:
    """Bytes. Below the smaller of 5 % and 1 GiB people are told."""
    return free < min(LOW, total * LOW_SHARE)


def is_full(free: int, total: int) -> bool:
    """Bytes. What is left is for the database: a start, with its log, would take it."""
    return free < min(FULL, total * FULL_SHARE)


def describe_full(*, of_database: bool = False) -> str:
    """What is said to whoever wanted to change something. `of_database`: it has a disk of its own."""
    database, folder = "people.database-disk-full", "people.data-disk-full"
    return say(database if of_database else folder).text
