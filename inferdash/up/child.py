"""A program that ends when the supervisor does, even when that is killed.

Run as a file: `python -I -S child.py SUPERVISOR_PID PROGRAM ARGUMENT…`. It is a program of its
own because code between fork and exec is not safe beside the supervisor's threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    supervisor, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:  # it was gone before the line above
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the plan names the program


if __name__ == "__main__":
    main()
