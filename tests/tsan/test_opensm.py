"""That the sanitizer sees into a plugin of opensm, which was not built with it: or else no report would mean nothing. For
tools/test-tsan, which has it loaded into opensm before all else."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.fabric import Fabric, fat_tree  # noqa: E402
from harness.wait import until  # noqa: E402
from harness.weft import build_folder  # noqa: E402


def test_a_race_in_a_plugin_is_found(tmp_path, monkeypatch):
    """One with opensm's own threads, and nothing else: that GLib's lock orders what it should is seen, too."""
    monkeypatch.setenv("TSAN_OPTIONS", f"{os.environ['TSAN_OPTIONS']}:log_path={tmp_path}/report")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build_folder().resolve() / "tests"))

    def found():
        return "".join(report.read_text(encoding="utf-8") for report in tmp_path.glob("report*"))

    with Fabric(tmp_path / "fabric", fat_tree(2, 4, 2)).up() as fabric:
        manager = fabric.manager(options={"event_plugin_name": "weftracer"}).start()
        manager.sweep()
        until(lambda: found().count("==================") == 2, lambda: f"the race is told: {found()}{manager.log()[-2000:]}")
    assert found().count("WARNING: ThreadSanitizer: data race") == 1
    assert "libweftracer.so" in found()
