"""Errors travel: out of a process that worked for another, into a copy."""

import copy
import pickle

import pytest

from starcast.errors import DataError, FileFormatError, MissingExtraError, PromiseError


@pytest.mark.parametrize(
    "error",
    [
        DataError("none"),
        FileFormatError("damaged"),
        MissingExtraError("drawing", "matplotlib", "plots"),
        PromiseError("mae", 0.5, 0.9, 7, 0.6, 0.4, 0.3),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_the_way_to_another_process(error, duplicate):
    again = duplicate(error)
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
