"""Test that the mutants of tests/programs/mutants.txt can be applied. `make soak` runs the checks on them."""

from programs.mutant_list import mutants_of_list


def test_every_listed_mutant_changes_its_file_and_has_a_name():
    mutants = mutants_of_list()
    assert [mutant.name for mutant in mutants if mutant.applied() == mutant.text] == []
    assert len({mutant.name for mutant in mutants}) == len(mutants)
