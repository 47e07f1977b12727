"""Test of runs in which a scheduler starts a dbt process for each model."""

import subprocess
import sys

from pipeline import REPOSITORY


def test_process_per_model_publishes_the_same_marts_as_one_build():
    program = REPOSITORY / "tests/programs/process_per_model.py"
    done = subprocess.run(
        [sys.executable, str(program), "--runs", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed int_windows: True" in done.stdout
