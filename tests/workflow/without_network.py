"""Bring loopback up in a fresh network namespace, then run the command that follows.

A node without internet has its loopback, and a fresh namespace has one too, but down.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

# Of linux/sockios.h, linux/if.h: struct ifreq is a name of 16 bytes and a union of 24.
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1
REQUEST = "16sH22x"

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    name, flags = struct.unpack(
        REQUEST, fcntl.ioctl(control, GET_FLAGS, struct.pack(REQUEST, b"lo", 0))
    )
    fcntl.ioctl(control, SET_FLAGS, struct.pack(REQUEST, name, flags | UP))
os.execvp(sys.argv[1], sys.argv[1:])
