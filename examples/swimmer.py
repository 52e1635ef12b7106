"""APO against discounted PPO on Swimmer-v5: three seeds each, about three minutes on two cores.

A swimmer is rewarded for its speed, and swims for ever. Good strokes pay off later than a discount
factor of 0.99 looks ahead, so that PPO with this usual choice learns a poor gait on every seed. The
long-run average reward has no such horizon to choose. Both train with the default settings
otherwise, and PPO, too, with a lambda that adapts, as strokes pay off late. Ten seeds of each are
in results/swimmer-demo.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from longrun import APO, PPO, read_results
from longrun.cli import main

TASK = "Swimmer-v5"
SEEDS = 3
SWEEP = (
    f"sweep apo ppo --env {TASK} --adaptive-lambda --grid discount=0.99"
    f" --steps 600000 --seeds {SEEDS} --eval-every 30000"
)
COLOURS = {"APO": "tab:blue", "PPO": "tab:red"}
NAMES = {"APO": "APO: long-run average reward", "PPO": "PPO: discount factor 0.99"}


def run() -> int:
    folder = Path("runs") / time.strftime("swimmer-%Y%m%d-%H%M%S")
    print(f"longrun {SWEEP} --out {folder}", flush=True)
    if status := main([*SWEEP.split(), "--out", str(folder)]):
        return status
    settings = {setting.label[:3]: setting for setting in read_results(folder)}
    returns = {name: setting.values["episode_return"] for name, setting in settings.items()}
    tracks = {name: distance(name, setting.replicas[0].run) for name, setting in settings.items()}
    draw(folder / "swimmer.png", settings["APO"].steps, returns, tracks)
    for name, curves in returns.items():
        print(f"{NAMES[name]}: return {', '.join(f'{x:.0f}' for x in curves[-1])} (each seed)")
    ratio = returns["APO"][-1].min() / returns["PPO"][-1].max()
    print(f"the slowest APO seed earns {ratio:.1f} times what the fastest PPO seed earns")
    print(f"picture: {folder / 'swimmer.png'}")
    print(
        f"next: longrun report {folder} --out report.html   (curves, tables, the swimmer at work)"
    )
    return 0


def distance(algorithm: str, run: Path) -> np.ndarray:
    """[1000] how far a run's deterministic policy has got, step by step."""
    agent = {"APO": APO, "PPO": PPO}[algorithm].load(run)
    env = gymnasium.make(TASK)
    observation, start = env.reset(seed=0)
    track = []
    for _ in range(1000):
        action, _ = agent.predict(observation, deterministic=True)
        observation, _, _, _, info = env.step(action)
        track.append(info["x_position"] - start["x_position"])
    env.close()
    return np.array(track)


def draw(
    out: Path, steps: np.ndarray, returns: dict[str, np.ndarray], tracks: dict[str, np.ndarray]
) -> None:
    """Left: the return of each seed over training. Right: how far the learned swimmers get."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    learning, swimming = figure.subplots(1, 2)
    for name, curves in returns.items():
        learning.plot(steps / 1000, curves, color=COLOURS[name], linewidth=1.8)
        swimming.plot(tracks[name], color=COLOURS[name], linewidth=2.2)
        label = {"color": COLOURS[name], "fontweight": "bold", "ha": "right"}
        learning.text(steps[-1] / 1000, curves[-1].max() + 12, NAMES[name], **label)
        swimming.text(990, tracks[name][-1] + 0.4, name, **label)
    learning.set(title=f"What {TASK} earns in 1000 steps, {SEEDS} seeds each")
    learning.set(xlabel="thousand steps of training", ylabel="return of the learned policy")
    learning.set_ylim(top=1.15 * max(curves.max() for curves in returns.values()))
    swimming.set(title="How far the learned swimmers get (seed 0)")
    swimming.set(xlabel="steps", ylabel="distance, metres")
    swimming.set_ylim(top=1.12 * max(track.max() for track in tracks.values()))
    for axis in (learning, swimming):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    sys.exit(run())
