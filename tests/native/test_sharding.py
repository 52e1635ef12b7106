"""Several devices, of one process or of two, learn what one device learns."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sharded_run

from longrun.cli import main
from longrun.train.run_folder import read_rows

HERE = Path(__file__).parent
TRAIN = ["train", "apo", "--env", "jax:criss-cross", "--seeds", "2", "--steps", "128"]
SIZES = ["--num-envs", "4", "--rollout-steps", "16", "--minibatch-size", "32", "--epochs", "1"]
EVALUATE = ["--eval-steps", "50", "--eval-every", "64", "--quiet"]


def environment(devices: int) -> dict[str, str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    return os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


def run(arguments: list[str], devices: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(devices),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_four_devices_learn_what_one_does(tmp_path: Path) -> None:
    process = run([str(HERE / "sharded_run.py"), str(tmp_path / "four.npz")], devices=4)
    sharded_run.main(str(tmp_path / "one.npz"))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    one, four = np.load(tmp_path / "one.npz"), np.load(tmp_path / "four.npz")
    assert (one["devices/0"], four["devices/0"]) == (1, 4)
    for name in one.files:
        if name != "devices/0":
            # Sums over environments are taken in another order.
            np.testing.assert_allclose(one[name], four[name], rtol=2e-4, atol=1e-6, err_msg=name)


def test_two_processes_learn_what_one_does_and_one_of_them_writes_it_down(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    out = ["--out", str(tmp_path / "two")]
    processes = [
        run(
            ["-m", "longrun", *TRAIN, *SIZES, *EVALUATE, *out, "--distributed", f"{address},2,{i}"],
            1,
        )
        for i in range(2)
    ]
    assert main([*TRAIN, *SIZES, *EVALUATE, "--out", str(tmp_path / "one")]) == 0
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert "writing to" in outputs[0]
    assert "writing to" not in outputs[1]
    for table in ("metrics.csv", "evaluations.csv"):
        one, two = (read_rows(tmp_path / name / table) for name in ("one", "two"))
        assert [r["replica"] for r in one] == [r["replica"] for r in two]
        for a, b in zip(one, two, strict=True):
            for name in a.keys() - {"steps_per_second"}:
                assert float(a[name]) == pytest.approx(
                    float(b[name]), rel=1e-3, abs=1e-6, nan_ok=True
                ), name


def test_environments_that_do_not_divide_over_the_devices_are_refused(tmp_path: Path) -> None:
    sizes = ["--num-envs", "3", "--rollout-steps", "16", "--minibatch-size", "16"]
    command = [*TRAIN, *sizes, *EVALUATE, "--out", str(tmp_path / "run")]
    process = run(["-m", "longrun", *command], devices=4)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "num_envs=3 of 2 replicas do not divide over 4 devices" in output
    assert "a multiple of 2, or 4 seeds" in output
