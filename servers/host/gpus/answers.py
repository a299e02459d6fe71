"""Answers of NVML: a value, none, a lost card, or the end of the session."""

from collections.abc import Callable
from typing import Any, Literal

import pynvml

from servers.host.gpus.readings import Fault
from servers.host.kernel.proc import Kernel

# Why NVML as a whole cannot be used.
type ErrorKind = Literal[
    "no_library", "driver_not_loaded", "driver_mismatch", "no_permission", "other"
]

_ABSENT = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
)
# No value just now, and no fault of the card's. With MIG some are for administrators only.
_NOT_NOW = (
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_NOT_READY,
)
# Answers after which there is no point in asking the same card anything else.
_LOST = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
)
# Answers that concern NVML as a whole: the session is over.
_OVER = (
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
)

_KINDS: dict[int, ErrorKind] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_library",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver_not_loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver_mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
}

_SENTENCES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "No GPU can be read because the NVIDIA driver's library libnvidia-ml.so.1 is not here: "
        "install the NVIDIA driver, or in a container give it the NVIDIA runtime with the "
        "“utility” capability."
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "No GPU can be read because the NVIDIA kernel module is not loaded: run "
        "“sudo modprobe nvidia”, and if that fails look for the reason in “sudo dmesg”."
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "No GPU can be read because the NVIDIA driver was updated while its old kernel module "
        "{driver}is still loaded: reboot the box."
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "No GPU can be read because this user may not open /dev/nvidia*: see who may with "
        "“ls -l /dev/nvidia*” and run the worker as such a user."
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: (
        "This GPU no longer answers the driver (it fell off the bus, or was taken away): stop what "
        "uses it and reboot the box; if it happens again, check its power cables and slot."
    ),
    pynvml.NVML_ERROR_RESET_REQUIRED: (
        "This GPU needs a reset before it can work again: stop what uses it, then run "
        "“sudo nvidia-smi --gpu-reset”, or reboot the box."
    ),
}


class GpuError(Exception):
    """NVML as a whole cannot be used; says why and what to do."""

    def __init__(self, sentence: str, kind: ErrorKind) -> None:
        super().__init__(sentence)
        self.kind = kind


class CardLostError(Exception):
    """The card is beyond answering; carries the sentence."""

    def __init__(self, error: pynvml.NVMLError) -> None:
        super().__init__(_sentence(error))
        needs_reset = error.value == pynvml.NVML_ERROR_RESET_REQUIRED
        self.kind: Fault = "reset" if needs_reset else "lost"


class NvmlDevice:
    """Asks one card, and remembers what cannot change and what it does not report."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._absent: set[str] = set()
        self._fixed: dict[str, Any] = {}
        self.fault: str | None = None  # the first odd answer since it was last forgotten

    def forget_fault(self) -> None:
        self.fault = None

    def handle(self, index: int) -> Any:
        """Raises Lost for whatever is wrong with one card, GpuError for what concerns all."""
        try:
            return pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:
            if error.value in _OVER:
                raise describe_error(error, self._kernel) from error
            raise CardLostError(error) from error

    def once(self, what: str, query: Callable[..., Any], *args: Any) -> Any:
        """As ask(); what has been answered is never asked again."""
        if what not in self._fixed:
            answer = self.ask(what, query, *args)
            if answer is None:
                return None
            self._fixed[what] = answer
        return self._fixed[what]

    def ask_gently(self, what: str, query: Callable[..., Any], *args: Any) -> Any:
        """As ask(), for what not every driver knows how to be asked: any refusal is final."""
        before = self.fault
        answer = self.ask(what, query, *args)
        if self.fault != before:
            self._absent.add(what)
            self.fault = before
        return answer

    def ask(self, what: str, query: Callable[..., Any], *args: Any) -> Any:
        """The answer, or None for a value that the card does not report.

        Raises Lost when the card is, GpuError when NVML as a whole is gone.
        """
        if what in self._absent:
            return None
        try:
            return query(*args)
        except pynvml.NVMLError as error:
            if error.value in _OVER:
                raise describe_error(error, self._kernel) from error
            if error.value in _LOST:
                raise CardLostError(error) from error
            if error.value in _ABSENT:
                self._absent.add(what)
            elif error.value not in _NOT_NOW:
                self.fault = self.fault or f"This GPU does not tell its {what}: {error}."
            return None


def describe_error(error: pynvml.NVMLError, kernel: Kernel) -> GpuError:
    version = kernel.driver_version()
    sentence = _sentence(error).replace("{driver}", f"{version} " if version else "")
    return GpuError(sentence, _KINDS.get(error.value, "other"))


def _sentence(error: pynvml.NVMLError) -> str:
    return _SENTENCES.get(
        error.value,
        f"NVML answers “{error}”: compare with “nvidia-smi” on the box, and look for lines "
        "with NVRM in “sudo dmesg”.",
    )
