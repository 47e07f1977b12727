"""Test of runs in which a scheduler starts a dbt process for each model."""

import subprocess
import sys

from pipeline import REPOSITORY


def test_a_process_for_each_model_publishes_what_one_build_publishes():
    program = REPOSITORY / "tests/programs/process_per_model.py"
    done = subprocess.run(
        [sys.executable, str(program), "--runs", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed int_windows: True" in done.stdout
