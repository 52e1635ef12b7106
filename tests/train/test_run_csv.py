"""Rows of metrics.csv and evaluations.csv after a crash or damage."""

from __future__ import annotations

import pytest

from fake_runs import fake_run, rising
from longrun.learning.runs.run_folder import RunFolder, is_finished


def test_rows_after_a_step_are_dropped_and_the_others_stay_as_they_were(tmp_path):
    folder = RunFolder(fake_run(tmp_path / "run", rising(1), rising(2)))
    before = (folder.path / "evaluations.csv").read_text().splitlines()
    folder.drop_rows_after([300, 100])
    after = (folder.path / "evaluations.csv").read_text().splitlines()
    assert after == [*before[:4], before[11]], "the header, three rows of replica 0, one of 1"


def test_a_damaged_row_is_dropped_with_a_warning(tmp_path):
    folder = RunFolder(fake_run(tmp_path / "run", rising(1)))
    file = folder.path / "metrics.csv"
    header, first, *_ = file.read_text().splitlines()
    file.write_text("\n".join([header, first, "0,0,x,1,1", ""]))
    with pytest.warns(UserWarning, match=r"metrics.csv' line 3 is damaged and left out"):
        folder.drop_rows_after([1000])
    assert file.read_text() == f"{header}\n{first}\n"


def test_the_last_evaluations_have_none_where_no_episode_ended(tmp_path):
    folder = RunFolder(fake_run(tmp_path / "run", {100: 1.0, 200: 3.0}, {}, ends=False))
    assert folder.last_evaluations(2) == {
        0: {
            "average_reward": 3.0,
            "average_reward_low": 2.0,
            "average_reward_high": 4.0,
            "episode_return": None,
            "episode_length": None,
            "episodes": 0.0,
            "settled": 1.0,
        }
    }
    assert RunFolder(tmp_path / "nothing").last_evaluations(1) == {}


@pytest.mark.parametrize("summary", [None, "{", "[]", "{}", '{"steps": "many"}', '{"steps": 999}'])
def test_a_run_is_finished_when_its_summary_has_its_steps(summary, tmp_path):
    run = fake_run(tmp_path / "run", rising(1), finished=True)
    assert is_finished(run, 1000)
    if summary is None:
        (run / "summary.json").unlink()
    else:
        (run / "summary.json").write_text(summary)
    assert not is_finished(run, 1000)
