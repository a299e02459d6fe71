"""The only package that speaks to NVML: what each NVIDIA card says about itself."""

from servers.host.gpus.answers import GpuError
from servers.host.gpus.session import Nvml

__all__ = ["GpuError", "Nvml"]
