"""What the lab needs of a build: found beside an installation, or in the build folder that the program was started from."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

LAB = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Tools:
    folder: Path  # of this package
    hook: Optional[Path]  # weft-hook
    fold: Optional[Path]  # libweftfold.so
    weftd: Optional[Path]
    guest: Optional[Path]  # weft-guest
    plugin: Optional[Path]  # libweftosm.so
    weft: Optional[Path]
    hcafs: Optional[Path]
    probe: Optional[Path]  # fabric-probe
    wakeups: Optional[Path]  # fabric-wakeups.so
    clients: Optional[Path]  # fabric-clients.so
    image: Optional[Path]  # folder of the emulated hosts' image
    confined: Optional[Path]  # folder of the image of those that are like a site's
    prepare: Optional[Path]  # weft-prepare.service


def _first(candidates):
    for path in candidates:
        if path and Path(path).exists():
            return Path(path).resolve()
    return None


def find(hook=None):
    """WEFT_BUILD names a build folder; else the source tree's build/, else what is installed."""
    given = os.environ.get("WEFT_BUILD")
    build = Path(given).resolve() if given else LAB.parent / "build"
    return Tools(folder=LAB,
                 hook=_first([hook] if hook else [build / "src/hook/weft-hook", LAB.parent.parent.parent / "sbin/weft-hook"]),
                 fold=_first([build / "lab/libweftfold.so", LAB / "libweftfold.so"]),
                 weftd=_first([build / "src/daemon/weftd", LAB.parent.parent.parent / "sbin/weftd"]),
                 guest=_first([build / "src/guest/weft-guest", LAB.parent / "weft-guest"]),
                 plugin=_first([build / "src/opensm-plugin/libweftosm.so",
                                *LAB.parents[2].glob("lib*/libweftosm.so"), *LAB.parents[2].glob("lib*/*/libweftosm.so")]),
                 weft=_first([build / "src/cli/weft", LAB.parent.parent.parent / "bin/weft"]),
                 hcafs=_first([build / "lab/hcafs", LAB / "hcafs"]),
                 probe=_first([build / "tests/fabric/fabric-probe", LAB / "fabric-probe"]),
                 wakeups=_first([build / "tests/fabric/fabric-wakeups.so", LAB / "fabric-wakeups.so"]),
                 clients=_first([build / "tests/fabric/fabric-clients.so", LAB / "fabric-clients.so"]),
                 image=_first([build / "images/metal"]),
                 confined=_first([build / "images/confined"]),
                 prepare=_first([build / "src/hook/weft-prepare.service"]))
