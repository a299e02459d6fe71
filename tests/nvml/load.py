"""A process with memory on a real GPU, through libcuda alone: no toolkit and no PyTorch.

python -m tests.nvml.load GIB [--busy] [--fault]: prints "ready", holds the memory until its input
is closed. --busy writes to it without a pause, --fault then writes where it may not (an XID 31).
"""

import argparse
import ctypes
import sys
import threading

GIB = 2**30

# Stores to address 16, which no context has.
_BAD = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry bad() {
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 16;
  st.global.u32 [%rd1], 1;
  ret;
}
\0"""


class Cuda:
    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)

    def call(self, name: str, *args: object) -> None:
        code = getattr(self._library, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def write(self, address: ctypes.c_uint64, size: int) -> None:
        self.call("cuMemsetD32_v2", address, ctypes.c_uint(7), ctypes.c_size_t(size // 4))
        self.call("cuCtxSynchronize")

    def write_where_it_may_not(self) -> None:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), _BAD)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"bad")
        self.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.call("cuCtxSynchronize")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gib", type=int)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--fault", action="store_true")
    arguments = parser.parse_args()
    cuda, size = Cuda(), arguments.gib * GIB
    address = cuda.allocate(size)
    cuda.write(address, size)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if arguments.fault:
        cuda.write_where_it_may_not()
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    while arguments.busy and not over.is_set():
        cuda.write(address, size)
    over.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
