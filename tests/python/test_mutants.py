"""Tests that the mutants of tests/programs change the project and can be read. `make soak` runs them."""

import ast

from programs.mutant_list import mutants_of_list
from programs.mutation_rules import of_python, of_sql


def test_every_listed_mutant_changes_its_file_and_has_a_name():
    mutants = mutants_of_list()
    assert [mutant.name for mutant in mutants if mutant.applied() == mutant.text] == []
    assert len({mutant.name for mutant in mutants}) == len(mutants)


def edited(text: str, edits) -> list[tuple[str, str]]:
    """Return the old and the new text of each mutation."""
    return [(text[start:end], new) for start, end, new in sorted(edits)]


def test_sql_is_mutated_outside_of_comments_and_strings_and_inside_jinja():
    text = """
        {#- a + b -#} -- 1 < 2
        select coalesce(sum(x), 0) - {{ f('a > ' ~ b) }} as y, 'a > b' as z from t
        where c is not null and x between 1 and y order by x desc, z
    """
    assert edited(text, of_sql(text)) == [
        ("sum", "max"), (", 0", ""), ("0", "1"), ("-", "+"), (">", ">="), ("c is not null and ", ""), ("not", ""),
        ("and", "or"), ("and x between 1 and y", ""), ("1", "2"), ("desc", "asc"), (", z", ""),
    ]  # fmt: skip


def test_python_is_mutated_outside_of_annotations_and_messages():
    text = '''
def f(x: int | None = 1) -> float:
    """Return x - 1."""
    if not x < 2 and x:
        raise ValueError(f"{x + 1}", 3)
    return np.minimum(x & (y > 0), -z, axis=1)
'''
    edits = list(of_python(text))
    for start, end, new in edits:
        ast.parse(text[:start] + new + text[end:])
    assert edited(text, edits) == [
        ("1", "2"), ("not", ""), ("<", "<="), ("2", "3"), ("and", "or"), ("and x", ""), ("minimum", "maximum"),
        ("x & ", ""), ("&", "|"), ("& (y > 0)", ""), (">", ">="), ("0", "1"), ("-", ""),
    ]  # fmt: skip
