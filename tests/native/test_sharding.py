"""Training on several devices, of one or two processes, gives the results of one device.

Two replicas of four environments: on four devices both replicas and environments are sharded.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fake_runs import csv_rows
from longrun.cli import main

TRAIN = ["train", "apo", "--env", "jax:criss-cross", "--seeds", "2", "--steps", "128", "--quiet"]
SIZES = ["--num-envs", "4", "--rollout-steps", "16", "--minibatch-size", "32", "--epochs", "1"]
EVALUATE = ["--eval-steps", "50", "--eval-every", "64", "--hidden-sizes", "8"]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sharding") / "one"
    assert main([*TRAIN, *SIZES, *EVALUATE, "--out", str(out)]) == 0
    return out


def run(devices: int, *commands: list[str]) -> subprocess.Popen[str]:
    """`longrun` with each of these arguments, in one process; prints the exit status of each."""
    settings = {
        # Added to the flags that are set: tests/portable.py emulates other machines by them.
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')}"
        f" --xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "no_proxy": "127.0.0.1",  # processes on one machine connect without a proxy
    }
    program = f"from longrun.cli import main\nfor each in {commands}: print('status', main(each))"
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def require_same(one: Path, other: Path) -> None:
    """Compare tables and checkpoints; sums over environments differ in their order."""
    for table in ("metrics.csv", "evaluations.csv"):
        before, after = (csv_rows(path / table) for path in (one, other))
        assert len(before) == len(after) > 0
        for a, b in zip(before, after, strict=True):
            for name in a.keys() - {"steps_per_second"}:
                close = pytest.approx(float(b[name]), rel=1e-3, abs=1e-6, nan_ok=True)
                assert float(a[name]) == close, name
    states = []
    for path in (one, other):
        header = json.loads((path / "checkpoint" / "checkpoint.json").read_text())
        states.append(safetensors.numpy.load_file(path / "checkpoint" / header["state"]))
    for name, value in states[0].items():
        np.testing.assert_allclose(value, states[1][name], rtol=2e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_four_devices_learn_what_one_does_and_refuse_what_does_not_divide(
    one: Path, tmp_path: Path
) -> None:
    indivisible = ["--num-envs", "3", "--rollout-steps", "16", "--minibatch-size", "16"]
    process = run(
        4,
        [*TRAIN, *indivisible, *EVALUATE, "--out", str(tmp_path / "none")],
        [*TRAIN, *SIZES, *EVALUATE, "--out", str(tmp_path / "four")],
    )
    output, _ = process.communicate(timeout=300)
    refused, _, trained = output.partition("status 2\n")
    assert "num_envs=3 of 2 replicas do not divide over 4 devices" in refused
    assert "a multiple of 2, or 4 seeds" in refused
    assert "status 0\n" in trained, output
    require_same(one, tmp_path / "four")


@pytest.mark.long
def test_two_processes_learn_what_one_does_and_one_of_them_writes_the_files(
    one: Path, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [*TRAIN, *SIZES, *EVALUATE, "--out", str(tmp_path / "two"), "--distributed"]
    processes = [run(1, [*command, f"{address},2,{i}"]) for i in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert all("status 0\n" in output for output in outputs), outputs
    assert "writing to" in outputs[0]
    assert "writing to" not in outputs[1]
    require_same(one, tmp_path / "two")


@pytest.mark.parametrize("where", ["x:1,2,2", "x:1,0,0"])
def test_an_index_beyond_the_processes_is_refused(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "--distributed", where, "--out", str(tmp_path / "run")]) == 2
    assert "count from 0" in capsys.readouterr().err
