"""Test that the mutations of tests/programs/mutants.txt can be applied. `make soak` checks that each one is found."""

from programs.mutant_list import mutants_of_list


def test_every_listed_mutation_changes_its_file_and_has_a_unique_name():
    mutants = mutants_of_list()
    assert [mutant.name for mutant in mutants if mutant.applied() == mutant.text] == []
    assert len({mutant.name for mutant in mutants}) == len(mutants)
