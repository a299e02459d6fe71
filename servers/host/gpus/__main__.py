"""A terminal report of what the driver says of each card, to compare with nvidia-smi."""

import argparse
import dataclasses
import json
import sys
import time

from servers.host.gpus import Nvml
from servers.host.gpus.answers import GpuError
from servers.host.gpus.readings import CardReading
from servers.host.kernel.proc import Kernel, KernelError

GIB = 2**30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m servers.host.gpus", description=__doc__)
    parser.add_argument("--once", action="store_true", help="one look instead of one a second")
    parser.add_argument("--json", action="store_true", help="an array a look, sizes in bytes")
    arguments = parser.parse_args()
    kernel = Kernel()
    try:
        nvml = Nvml(kernel)
        while True:
            cards = nvml.read_all(kernel.meminfo())
            if arguments.json:
                told = json.dumps([dataclasses.asdict(card) for card in cards])
            else:
                told = "\n".join(map(_line, cards)) or "The driver knows no GPU."
            sys.stdout.write(told + "\n")
            sys.stdout.flush()
            if arguments.once:
                return 0
            time.sleep(1.0)
    except (GpuError, KernelError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _line(card: CardReading) -> str:
    used = "–" if card.used is None else f"{card.used / GIB:.1f}"
    total = "–" if card.total is None else f"{card.total / GIB:.1f}"
    util = "–" if card.util is None else f"{card.util} %"
    power = "–" if card.power_w is None else f"{card.power_w:.0f} W"
    said = f"{card.index}  {card.name}  {used} of {total} GiB  {util}  {power}"
    return f"{said}  {card.fault}" if card.fault else said


if __name__ == "__main__":
    sys.exit(main())
