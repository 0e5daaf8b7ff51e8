"""Files that weftd takes for those of an image, as short as can be."""

import struct

DISK = b"disk" * 1024  # whole sectors
KERNEL = struct.pack("<4s5B7xHH", b"\x7fELF", 2, 1, 1, 0, 0, 2, 62) + b"a kernel"
INITRD = b"070701 an initrd"
