"""java.util.Random: published draws, and the plain recurrence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starcast.javarandom import JavaRandom

SEEDS = st.integers(-(2**63), 2**63 - 1)
EXACT = settings(derandomize=True, max_examples=50, deadline=None)


def naive_states(seed, n):
    state = (seed ^ 0x5DEECE66D) % 2**48
    for _ in range(n):
        state = (state * 0x5DEECE66D + 0xB) % 2**48
        yield state


def test_draws_are_those_of_java():
    # new Random(42): nextDouble(), nextInt() and nextInt(10), as any Java prints them.
    assert JavaRandom(42).next_doubles(3).tolist() == [0.7275636800328681, 0.6832234717598454, 0.30871945533265976]
    bits = JavaRandom(42).next_bits(32, 4).astype(np.uint32).view(np.int32)
    assert bits.tolist() == [-1170105035, 234785527, -1360544799, 205897768]
    generator = JavaRandom(42)
    assert [generator.next_int(10) for _ in range(4)] == [0, 3, 8, 4]


@EXACT
@given(SEEDS, st.integers(0, 70))
def test_many_draws_at_once_are_the_recurrence(seed, n):
    states = list(naive_states(seed, n))
    assert JavaRandom(seed).next_bits(31, n).tolist() == [state >> 17 for state in states]
    assert JavaRandom(seed).next_floats(n).tolist() == [(state >> 24) / 2**24 for state in states]
    pairs = zip(states[::2], states[1::2], strict=False)
    assert JavaRandom(seed).next_doubles(n // 2).tolist() == [((a >> 22) * 2**27 + (b >> 21)) / 2**53 for a, b in pairs]


@EXACT
@given(SEEDS, st.lists(st.integers(0, 9), max_size=6))
def test_draws_in_pieces_are_the_draws_at_once(seed, pieces):
    generator = JavaRandom(seed)
    drawn = [value for n in pieces for value in generator.next_floats(n).tolist()]
    assert drawn == JavaRandom(seed).next_floats(sum(pieces)).tolist()


@EXACT
@given(SEEDS, st.one_of(st.integers(1, 100), st.sampled_from([2**30, 2**30 + 1, 2**31 - 1, (2**31 + 1) // 3])))
def test_next_int_draws_again_past_the_last_whole_run(seed, bound):
    generator = JavaRandom(seed)
    states = naive_states(seed, 10_000)
    for _ in range(5):
        if bound & (bound - 1) == 0:
            expected = bound * (next(states) >> 17) >> 31
        else:
            expected = next(s >> 17 for s in states if (s >> 17) < 2**31 // bound * bound) % bound
        assert generator.next_int(bound) == expected


def test_shuffle_swaps_from_the_end():
    generator, order = JavaRandom(7), list(range(50))
    for size in range(50, 1, -1):
        other = generator.next_int(size)
        order[size - 1], order[other] = order[other], order[size - 1]
    assert JavaRandom(7).shuffle(50).tolist() == order
    assert sorted(order) == list(range(50))
    assert JavaRandom(7).shuffle(1).tolist() == [0]
    assert JavaRandom(7).shuffle(0).tolist() == []


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_a_numpy_seed_is_its_number(kind):
    assert JavaRandom(kind(43)).next_floats(5).tolist() == JavaRandom(43).next_floats(5).tolist()
    assert JavaRandom(kind(43)).shuffle(20).tolist() == JavaRandom(43).shuffle(20).tolist()
