"""The guide's pictures: each is made again when one of its sources has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diagnostic_pictures import collapsing_gait, drifting_values, saturated_deviation
from discount_pictures import discount_animation, discount_curves

HERE = Path(__file__).parent
ROOT = HERE.parent
PICTURES: dict[str, tuple[Callable[[Path], None], tuple[Path, ...]]] = {
    "discounts.png": (discount_curves, (HERE / "discount_pictures.py",)),
    "discounts.gif": (discount_animation, (HERE / "discount_pictures.py",)),
    "drifting-values.png": (drifting_values, (HERE / "diagnostic_pictures.py",)),
    "saturated-deviation.png": (
        saturated_deviation,
        (HERE / "diagnostic_pictures.py", ROOT / "results/figure1-raw/halfcheetah-3m.csv"),
    ),
    "collapsing-gait.png": (
        collapsing_gait,
        (HERE / "diagnostic_pictures.py", ROOT / "results/figure1-raw/swimmer-3m.csv"),
    ),
}
"""Name of each picture, the function that writes it, and what it is made from."""


def made_pictures(folder: Path) -> list[Path]:
    """All pictures in a folder, which keeps them between builds."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (make, sources) in PICTURES.items():
        path = folder / name
        newest = max(source.stat().st_mtime for source in sources)
        if not path.exists() or path.stat().st_mtime < newest:
            make(path)
        paths.append(path)
    return paths
