"""Model files from strangers: an error of ours, or a model that answers. Nothing else may come out."""

import contextlib
import copy
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import NAMES as FITTED
from small import make

import starcast as sc
from starcast.errors import FileFormatError, StarcastError

EXACT = settings(derandomize=True, max_examples=150, deadline=None)
CODES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "U64": np.uint64, "BOOL": bool, "C64": np.complex64}  # fmt: skip
NAMES = {np.dtype(dtype): code for code, dtype in CODES.items()}


def model_of(name, names=str, titles=True):
    users, items = (
        (["ann", "bob", "ann", "cat"], ["x", "y", "y", "x"]) if names is str else ([1, 2, 1, 3], [7, 8, 8, 7])
    )
    ratings = sc.Ratings.from_arrays(users, items, [1, 2, 3, 3], titles={items[0]: "X"} if titles else None)
    return make(name).fit(ratings)


def take_apart(content):
    """The header without the digest, which a stranger can leave out, and each array in the place of its offsets."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    data = content[8 + size :]
    metadata = header.pop("__metadata__")
    del metadata["digest"]
    arrays = {k: np.frombuffer(data[slice(*v["data_offsets"])], CODES[v["dtype"]]).reshape(v["shape"]) for k, v in header.items()}  # fmt: skip
    return metadata, json.loads(metadata["starcast"]), arrays


def put_together(metadata, description, arrays, header_changes=None):
    header, data = {"__metadata__": metadata | {"starcast": json.dumps(description)}}, b""
    for name, array in arrays.items():
        begin = len(data)
        data += np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    for name, change in (header_changes or {}).items():
        header[name] = {**header.get(name, {}), **change} if isinstance(change, dict) else change
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def must_be_harmless(path):
    """Load it and put every question; the only errors are ours, and warnings count as errors."""
    with warnings.catch_warnings(), contextlib.suppress(StarcastError):
        warnings.simplefilter("error")
        model = sc.load(path)
        users, items = model.users_[:3], model.items_[:3]
        answer = model.predict_proba(np.repeat(users, len(items)), np.tile(items, len(users)))
        answer.mode(), answer.mean(), answer.median(), answer.interval(), answer.entropy(), answer.keep(0.5)
        assert np.isfinite(answer.probs).all()
        model.predict(users, items[0], threshold=0.5)
        unknown = ["nobody"] if model.users_.dtype == object else [-99]
        model.predict(unknown, items[:1])
        model.recommend(n=2)
        model.recommend(users[:1], candidates=items[:1], exclude_seen=False)
        with contextlib.suppress(StarcastError):
            model.recommend(unknown)
        model.titles_for(items.tolist())
        repr(model)
        model.save(path)
        sc.load(path)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Each kind of model file, taken apart, and as bytes."""
    folder, made = tmp_path_factory.mktemp("parts"), {}
    for name in FITTED:
        for names in (str, int):
            model_of(name, names).save(folder / "m")
            taken = take_apart((folder / "m").read_bytes())
            made[name, names] = (*taken, put_together(*taken))
    return made


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tmp_path_factory.mktemp("target") / "m"


def test_what_is_taken_apart_and_put_together_is_the_model(parts, target):
    for metadata, description, arrays, _ in parts.values():
        target.write_bytes(put_together(metadata, description, arrays))
        model = sc.load(target)
        assert model.predict_proba(model.users_[:1], model.items_[:1]).probs.sum() == pytest.approx(1)


KINDS = st.tuples(st.sampled_from(sorted(FITTED)), st.sampled_from([str, int]))


@EXACT
@given(KINDS, st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes_do_no_harm(parts, target, kind, flips):
    content = bytearray(parts[kind][-1])
    for place, byte in flips:
        content[int(place * len(content))] = byte
    target.write_bytes(content)
    must_be_harmless(target)


@EXACT
@given(KINDS, st.floats(0, 1), st.floats(0, 1), st.binary(max_size=30))
def test_cut_and_spliced_files_do_no_harm(parts, target, kind, begin, end, filling):
    content = parts[kind][-1]
    target.write_bytes(content[: int(begin * len(content))] + filling + content[int(end * len(content)) :])
    must_be_harmless(target)


@EXACT
@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_do_no_harm(target, content, sized):
    target.write_bytes(len(content).to_bytes(8, "little") + content if sized else content)
    must_be_harmless(target)


NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 127, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 0.5, 1e308, -1e308, 5e-324, np.nan, np.inf])  # fmt: skip


@settings(derandomize=True, max_examples=400, deadline=None)
@given(KINDS, st.data())
def test_arrays_of_any_type_shape_and_content_do_no_harm(parts, target, kind, data):
    metadata, description, arrays, _ = parts[kind]
    arrays = dict(arrays)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(arrays)))
        array = arrays[name]
        action = data.draw(st.sampled_from(["drop", "dtype", "shape", "value", "extra", "empty", "swap"]))
        if action == "drop" and len(arrays) > 1:
            del arrays[name]
        elif action == "dtype":
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays[name] = array.astype(CODES[data.draw(st.sampled_from(sorted(CODES)))])
        elif action == "shape":
            arrays[name] = data.draw(st.sampled_from([array[:1], array[:, None], array.ravel(), np.concatenate([array, array]), array.reshape(-1, 1)[0], array.ravel()[:1].reshape(())])) if array.ndim and array.size else array  # fmt: skip
        elif action == "value" and array.size:
            changed = array.copy()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed.ravel()[data.draw(st.integers(0, array.size - 1))] = np.array(data.draw(NUMBERS)).astype(array.dtype)  # fmt: skip
            arrays[name] = changed
        elif action == "extra":
            arrays[data.draw(st.sampled_from(["x_", "__class__", "__dict__", "_index", "fit", "titles_", "digest_", "shrinkage_", "users_.ends", "users_.bytes", ".ends", "prior_.ends", "scores_.bytes", "", "__metadata__x"]))] = data.draw(st.sampled_from([np.arange(3), np.array([b"abc"]).view(np.uint8), np.array([3])]))  # fmt: skip
        elif action == "empty" and array.ndim:
            arrays[name] = array[:0]
        elif action == "swap":
            arrays[name] = arrays[data.draw(st.sampled_from(sorted(arrays)))]
    target.write_bytes(put_together(metadata, description, arrays))
    must_be_harmless(target)


JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, -1, 10**400, 1e308, float("nan"), float("inf"), "", "auto", "users_", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["shrinkage", "x_", "probs_", "__class__"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(derandomize=True, max_examples=400, deadline=None)
@given(KINDS, st.data())
def test_descriptions_of_any_type_do_no_harm(parts, target, kind, data):
    metadata, description, arrays, _ = parts[kind]
    description = copy.deepcopy(description)
    where = data.draw(st.sampled_from(["top", "params", "learnt"]))
    table = description if where == "top" else description[where]
    known = {"top": ["model", "params", "learnt", "version", "x"], "params": ["shrinkage", "user_shrinkage", "args", "random_state", "fit"], "learnt": ["digest_", "titles_", "shrinkage_", "users_", "seen_items_", "__class__", "__dict__", "__doc__", "__weakref__", "_index_", "item_shrinkage_", "fit"]}[where]  # fmt: skip
    key = data.draw(st.sampled_from(known))
    if data.draw(st.booleans()) and key in table:
        del table[key]
    else:
        table[key] = data.draw(JSON)
    target.write_bytes(put_together(metadata, description, arrays))
    must_be_harmless(target)


@pytest.mark.parametrize(
    "dtype",
    [
        "BF16",
        "F8_E4M3",
        "F8_E5M2",
        "F4",
        "F6_E2M3",
        "U16",
        "U32",
        "I16",
        "F16",
        "BOOL",
        "C64",
        "E8M0",
        "F8_E8M0",
        "X9",
        "",
        None,
        7,
    ],
)
@pytest.mark.parametrize("name", ["prior_", "users_", "seen_items_", "scores_"])
def test_unusual_types_do_no_harm(parts, target, dtype, name):
    metadata, description, arrays, _ = parts["item", int]
    size = {"BF16": 2, "U16": 2, "I16": 2, "F16": 2, "U32": 4, "C64": 8}.get(dtype, 1)
    data = np.zeros(len(arrays[name].ravel()) * size, np.uint8)
    content = put_together(metadata, description, arrays | {name: data}, {name: {"dtype": dtype, "shape": list(arrays[name].shape)}})  # fmt: skip
    target.write_bytes(content)
    with pytest.raises(FileFormatError):
        sc.load(target)


@pytest.mark.parametrize(
    "changes",
    [
        {"prior_": {"data_offsets": [0, 24]}},
        {"prior_": {"data_offsets": [8, 0]}},
        {"prior_": {"data_offsets": [-8, 16]}},
        {"prior_": {"data_offsets": [0, 2**63]}},
        {"prior_": {"data_offsets": []}},
        {"prior_": {"data_offsets": None}},
        {"prior_": {"shape": [2**62, 4]}},
        {"prior_": {"shape": [-1]}},
        {"prior_": {"shape": [1.5]}},
        {"prior_": {"shape": 3}},
        {"prior_": {"shape": None}},
        {"prior_": 5},
        {"prior_": None},
        {"prior_": []},
        {"__metadata__": None},
        {"__metadata__": []},
        {"__metadata__": {"format": 1}},
        {"__metadata__": {"format_version": None}},
        {"__metadata__": {"starcast": {}}},
        {"copy_": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}},
    ],
    ids=str,
)
def test_headers_that_lie_are_refused(parts, target, changes):
    metadata, description, arrays, _ = parts["item", int]
    target.write_bytes(put_together(metadata, description, arrays, changes))
    with pytest.raises(FileFormatError):
        sc.load(target)


@pytest.mark.parametrize("length", [0, 1, 7, 2**31, 2**32, 2**62, 2**63, 2**64 - 1, 100_000_001])
def test_a_header_longer_than_the_file_is_refused(parts, target, length):
    content = parts["item", int][-1]
    target.write_bytes(length.to_bytes(8, "little") + content[8:])
    with pytest.raises(FileFormatError):
        sc.load(target)


def test_a_header_off_the_grid_of_eight_bytes_does_no_harm(parts, target):
    for kind, (*_, content) in parts.items():
        size = int.from_bytes(content[:8], "little")
        for extra in range(1, 8):
            target.write_bytes((size + extra).to_bytes(8, "little") + content[8 : 8 + size] + b" " * extra + content[8 + size :])  # fmt: skip
            must_be_harmless(target)
        assert kind


def change_arrays(**changes):
    return lambda description, arrays: arrays.update(changes)


def drop(name):
    return lambda description, arrays: arrays.pop(name)


def change(where, key, value):
    return lambda description, arrays: (description if where is None else description[where]).update({key: value})


@pytest.mark.parametrize(
    ("mutate", "message"),
    [
        (change(None, "model", "GrandMF"), r"holds a model of the kind 'GrandMF', which this Starcast does not have\. Upgrade with: pip install -U starcast"),
        (change(None, "model", ["x"]), r"holds a model of the kind \['x'\]"),
        (change(None, "params", []), r"is damaged: its parameters are no table\. Fetch the file again, or fit the model again\."),
        (change(None, "learnt", []), r"is damaged: its learnt values are no table"),
        (change("params", "depth", 3), r"holds parameters that this Starcast does not take: unknown parameter of ItemFrequency 'depth'"),
        (change("params", "shrinkage", -3), r"holds parameters that this Starcast does not take: shrinkage must be zero or more"),
        (change("learnt", "__class__", 3), r"is damaged: it holds what no model learns"),
        (change("learnt", "extra_", 3), r"is damaged: it holds what no model learns"),
        (change("learnt", "titles_", "X"), r"is damaged: it holds titles_ twice"),
        (lambda description, arrays: (arrays.pop("titles_.ends"), arrays.pop("titles_.bytes"), description["learnt"].update(titles_="X")), r"is damaged: the titles do not fit"),
        (change("learnt", "digest_", 5), r"is damaged: digest_ must be text"),
        (change("learnt", "shrinkage_", None), r"is damaged: shrinkage_ is missing"),
        (change("learnt", "shrinkage_", 10**400), r"is damaged: shrinkage_ is missing"),
        (change_arrays(shrinkage_=np.zeros(3)), r"is damaged: it holds shrinkage_ twice"),
        (lambda description, arrays: (description["learnt"].pop("shrinkage_"), arrays.update(shrinkage_=np.zeros(3))), r"is damaged: shrinkage_ is missing"),
        (drop("prior_"), r"is damaged: prior_ is missing"),
        (drop("probs_"), r"is damaged: probs_ is missing"),
        (change_arrays(prior_=np.full(2, 0.5)), r"is damaged: prior_ has 2 scores instead of 3"),
        (change_arrays(prior_=np.full((3, 1), 0.5)), r"is damaged: prior_ has 2 axes instead of 1"),
        (change_arrays(prior_=np.array([np.nan, 0.5, 0.5])), r"is damaged: prior_ holds numbers that are not finite"),
        (change_arrays(prior_=np.array([0.5, 0.5, 0.5])), r"is damaged: prior_ does not hold probabilities"),
        (change_arrays(prior_=np.array([0.0, 0.5, 0.5])), r"is damaged: prior_ does not hold probabilities"),
        (change_arrays(probs_=np.full((2, 3), -1.0)), r"is damaged: probs_ does not hold probabilities"),
        (change_arrays(probs_=np.full((2, 3), 1, np.int64)), r"is damaged: probs_ is not in floating point"),
        (change_arrays(scores_=np.array([3.0, 2.0, 1.0])), r"is damaged: the scores do not ascend"),
        (change_arrays(scores_=np.array([5, 1, 2], np.uint8)), r"is damaged: scores_ is not in floating point"),
        (change_arrays(users_=np.array([1.5, 2.5, 3.5])), r"is damaged: users_ must be text or whole numbers"),
        (change_arrays(seen_start_=np.array([0, 1, 2, 4], np.int32)), r"is damaged: what was seen is not in whole numbers"),
        (change_arrays(seen_start_=np.array([0, 3, 2, 4])), r"is damaged: the users' rows do not fit"),
        (change_arrays(seen_start_=np.array([0, 1, 2, 5])), r"is damaged: the users' rows do not fit"),
        (change_arrays(seen_start_=np.array([0, 2**63 - 1, -(2**63), 4])), r"is damaged: the users' rows do not fit"),
        (change_arrays(seen_items_=np.array([0, 1, 2, 0], np.int32)), r"is damaged: an item code lies outside the items"),
        (change_arrays(seen_items_=np.array([0, 1, -1, 0], np.int32)), r"is damaged: an item code lies outside the items"),
        (change_arrays(**{"titles_.ends": np.array([1, 0])}), r"is damaged: the text ends of 'titles_' do not fit its bytes"),
        (change_arrays(**{"titles_.bytes": np.array([255], np.uint8)}), r"is damaged: 'titles_' holds bytes that are no text"),
        (change_arrays(**{"titles_.ends": np.array([1])}), r"is damaged: the titles do not fit"),
        (drop("titles_.bytes"), r"is damaged: the text ends of 'titles_' do not fit its bytes"),
        (drop("titles_.ends"), r"is damaged: it holds what no model learns"),
    ],
)  # fmt: skip
def test_each_thing_that_does_not_fit_is_said(parts, target, mutate, message):
    metadata, description, arrays, _ = parts["item", int]
    description, arrays = copy.deepcopy(description), dict(arrays)
    mutate(description, arrays)
    target.write_bytes(put_together(metadata, description, arrays))
    with pytest.raises(FileFormatError, match=message):
        sc.load(target)


def test_a_model_of_nobody_is_refused(parts, target):
    metadata, description, arrays, _ = parts["global", int]
    nobody = {
        "users_": np.empty(0, np.int64),
        "seen_start_": np.zeros(1, np.int64),
        "seen_items_": np.empty(0, np.int32),
        "seen_scores_": np.empty(0, np.int8),
    }
    target.write_bytes(put_together(metadata, description, arrays | nobody))
    with pytest.raises(FileFormatError, match=r"is damaged: it knows no user, item or rating"):
        sc.load(target)


def test_half_a_character_is_no_name(parts, target):
    metadata, description, arrays, _ = parts["global", str]
    half = {"users_.bytes": np.frombuffer(b"\xed\xa0\x80", np.uint8), "users_.ends": np.array([1, 2, 3])}
    target.write_bytes(put_together(metadata, description, arrays | half))
    with pytest.raises(FileFormatError, match=r"is damaged: 'users_' holds bytes that are no text"):
        sc.load(target)
