"""Tests that each mutant of tests/programs still changes the project. `make soak` runs them."""

import pytest

from conftest import REPOSITORY
from programs.mutant_list import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_changes_its_file(mutant):
    assert mutant.applied(REPOSITORY) != (REPOSITORY / mutant.file).read_text()


def test_names_are_unique():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
