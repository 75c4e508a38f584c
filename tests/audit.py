"""`make audit`: known flaws of the pinned packages, where pip-audit and its source are at hand."""

import shutil
import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).parents[1] / "constraints.txt"
SECONDS = 300


def audit(pins: Path) -> int:
    """Ask pip-audit; 1 where it knows of flaws, 0 where it knows of none or cannot be asked."""
    program = shutil.which("pip-audit", path=str(Path(sys.executable).parent))
    if program is None:
        print("skipped: pip-audit is not installed (pip install pip-audit)")
        return 0
    asked = [program, "--requirement", str(pins), "--no-deps", "--disable-pip", "--strict"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print(f"skipped: the source of advisories did not answer in {SECONDS} s")
        return 0
    if told.returncode and "ConnectionError" in told.stderr:
        print("skipped: the source of advisories cannot be reached")
        return 0
    print(told.stdout or told.stderr)
    return told.returncode


if __name__ == "__main__":
    sys.exit(audit(PINS))
