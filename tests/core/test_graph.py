from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.graph import ancestors, cycles, dependents

IDS = st.sampled_from("abcdef")
GRAPHS = st.dictionaries(IDS, st.lists(IDS, max_size=3), max_size=6)


@given(GRAPHS)
def test_a_cycle_is_reported_exactly_when_something_needs_itself_in_the_end(needs):
    in_circle = {
        name for name in needs if name in ancestors({k: [n for n in v if n in needs] for k, v in needs.items()}, name)
    }
    reported = {name for group in cycles(needs) for name in group}
    assert in_circle <= reported
    assert bool(in_circle) == bool(reported)


def test_members_are_all_named_and_bystanders_are_not():
    needs = {"a": ["c"], "b": ["a"], "c": ["b"], "before": [], "after": ["a"], "self": ["self"]}
    assert cycles(needs) == [["a", "b", "c"], ["self"]]


def test_dependents_keep_the_order_and_leave_out_strangers():
    assert dependents({"a": [], "b": ["a", "x"], "c": ["a"]}) == {"a": ["b", "c"], "b": [], "c": []}


def test_a_chain_of_twenty_thousand_is_no_trouble():
    needs = {str(index): [str(index - 1)] if index else [] for index in range(20_000)}
    assert cycles(needs) == []
    assert len(ancestors(needs, "19999")) == 19_999
