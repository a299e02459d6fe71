#!/usr/bin/env python3
"""Chromium that hears of no change of the network: its program, for Playwright.

The kernel tells over netlink sockets of every bridge and interface that comes or goes with a test's
containers. Each time Chromium drops the requests under way (ERR_NETWORK_CHANGED). Here it gets no
such socket, as in a service of systemd with RestrictAddressFamilies, and asks nobody else.
"""

import ctypes
import errno
import os
import platform
import sys

# The first that is there.
PROGRAMS = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
AF_NETLINK = 16
# From <linux/audit.h> and <asm/unistd.h>.
ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
# From <linux/prctl.h>, <linux/seccomp.h> and <linux/bpf_common.h>.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16


class Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_so", ctypes.c_uint8),
        ("if_not", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction)))


def refuse_netlink() -> None:
    """For this process and all that it starts. Raises OSError where the kernel does not."""
    architecture, socket = ARCHITECTURES[platform.machine()]
    instructions = (Instruction * 8)(
        Instruction(LOAD, 0, 0, ARCHITECTURE),
        Instruction(IF_EQUAL, 0, 5, architecture),
        Instruction(LOAD, 0, 0, NUMBER),
        Instruction(IF_EQUAL, 0, 3, socket),
        Instruction(LOAD, 0, 0, FIRST_ARGUMENT),
        Instruction(IF_EQUAL, 0, 1, AF_NETLINK),
        Instruction(RETURN, 0, 0, FAIL | errno.EAFNOSUPPORT),
        Instruction(RETURN, 0, 0, ALLOW),
    )
    rules = Filter(len(instructions), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) or libc.prctl(
        PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(rules), zero, zero
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


if __name__ == "__main__":
    refuse_netlink()
    program = next(filter(os.path.exists, PROGRAMS))
    os.execv(program, [program, *sys.argv[1:]])  # noqa: S606
