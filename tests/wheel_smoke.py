"""What a user does first with an installed wheel; `make package` runs it outside the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PACKAGES = Path(sysconfig.get_paths()["purelib"])
COMMAND = str(Path(sys.executable).parent / "longrun")
MOST_MEGABYTES = 600
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
"""What an empty environment has."""
TRAIN = "train apo --env CartPole-v1 --steps 4000 --seeds 2 --out run"


def longrun(words: str) -> str:
    """The output of a command; its errors are shown."""
    done = subprocess.run([COMMAND, *words.split()], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def megabytes() -> float:
    own = (path for path in PACKAGES.iterdir() if not path.name.startswith(NOT_OURS))
    files = (file for path in own for file in (path.rglob("*") if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6


def main() -> None:
    import longrun as package

    assert Path(package.__file__).is_relative_to(PACKAGES), package.__file__
    assert longrun("--version").strip() == package.__version__
    assert "jax" not in sys.modules
    size = megabytes()
    print(f"longrun {package.__version__}, {size:.0f} MB with all that it needs")
    assert size < MOST_MEGABYTES
    assert "solve" in longrun("--help")
    assert abs(json.loads(longrun("solve access-control --json"))["gain"] - 2.747642) < 1e-5
    longrun(TRAIN)
    assert json.loads(longrun("evaluate run --steps 1000 --json"))
    assert "APO" in longrun("compare run")
    longrun("report run --no-frames --out run.html")
    action, _ = package.load_policy("run").predict([0.0, 0.0, 0.0, 0.0])
    assert action in (0, 1)
    assert "jax" not in sys.modules
    print("the wheel works")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
