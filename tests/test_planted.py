import numpy as np
import pytest

from starcast.distribution import Distribution
from starcast.errors import DataError, ParameterError, UnknownNameError
from starcast.planted import PlantedTruth, make_ratings
from starcast.ratings import Ratings


def test_planted_ratings_have_the_shape_asked_for() -> None:
    ratings, truth = make_ratings(60, 40, 7, density=0.3, n_factors=3, random_state=1)
    assert (len(ratings), len(ratings.users), len(ratings.items)) == (720, 60, 40)
    assert ratings.scores.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert isinstance(truth, Distribution)
    assert truth.probs.shape == (720, 7)
    assert truth.scores.tolist() == ratings.scores.tolist()
    assert len(set(zip(ratings.user.tolist(), ratings.item.tolist(), strict=True))) == 720


@pytest.mark.parametrize(("n_users", "n_items"), [(1, 1), (1, 9), (9, 1), (20, 30), (30, 20)])
@pytest.mark.parametrize("density", [0, 1])
def test_every_user_and_item_has_a_planted_rating(n_users: int, n_items: int, density: float) -> None:
    least = max(n_users, n_items) / (n_users * n_items)
    ratings, truth = make_ratings(n_users, n_items, density=density or least, random_state=0)
    assert (len(ratings.users), len(ratings.items)) == (n_users, n_items)
    assert len(ratings) == len(truth) == (n_users * n_items if density else max(n_users, n_items))


@pytest.mark.parametrize("random_state", range(5))
@pytest.mark.parametrize("n_factors", [0, 1, 8])
def test_all_scores_occur(random_state: int, n_factors: int) -> None:
    ratings, _ = make_ratings(n_factors=n_factors, random_state=random_state)
    assert ratings.counts().min() > 0.02 * len(ratings)


def test_the_same_seed_plants_the_same_bits() -> None:
    (ratings, truth), (again, truth_again) = make_ratings(random_state=7), make_ratings(random_state=7)
    assert ratings.digest() == again.digest()
    assert truth.probs.tobytes() == truth_again.probs.tobytes()
    assert make_ratings(random_state=8)[0].digest() != ratings.digest()
    assert make_ratings(random_state=np.random.default_rng(7))[0].digest() == ratings.digest()
    assert make_ratings()[0].digest() != make_ratings()[0].digest()


def test_names_may_be_strings() -> None:
    numbers, truth = make_ratings(30, 20, random_state=0)
    strings, same_truth = make_ratings(30, 20, names="str", random_state=0)
    assert strings.users.tolist() == [f"u{name}" for name in numbers.users]
    assert strings.items.tolist() == [f"i{name}" for name in numbers.items]
    assert strings.score.tolist() == numbers.score.tolist()
    assert same_truth.predict_proba(["u3"], ["i5"]).probs.tolist() == truth.predict_proba([3], [5]).probs.tolist()


@pytest.fixture(scope="module")
def planted() -> tuple[Ratings, PlantedTruth]:
    return make_ratings(400, 300, density=0.5, random_state=3)


def test_planted_frequencies_agree_with_their_probabilities(planted: tuple[Ratings, PlantedTruth]) -> None:
    ratings, truth = planted
    given = np.eye(len(truth.scores))[ratings.score]
    for bins in (10, 40):
        edge = np.linspace(0, 1, bins + 1)[1:-1]
        for score in range(len(truth.scores)):
            p = truth.probs[:, score]
            bin_of = np.digitize(p, edge)
            expected = np.bincount(bin_of, p, bins)
            spread = np.sqrt(np.bincount(bin_of, p * (1 - p), bins))
            found = np.bincount(bin_of, given[:, score], bins)
            full = spread > 3  # bins with enough ratings for the normal approximation
            assert full.sum() >= bins / 2
            assert (np.abs(found - expected)[full] < 4 * spread[full]).all()


def test_planted_log_loss_is_the_entropy(planted: tuple[Ratings, PlantedTruth]) -> None:
    ratings, truth = planted
    loss = -np.log(truth.probs[np.arange(len(ratings)), ratings.score])
    assert abs((loss - truth.entropy()).mean()) < 4 * loss.std() / np.sqrt(len(loss))


def test_users_differ_in_how_well_they_can_be_foretold(planted: tuple[Ratings, PlantedTruth]) -> None:
    ratings, truth = planted
    count = np.bincount(ratings.user)
    reliability = np.bincount(ratings.user, truth.reliability()) / count
    hits = np.bincount(ratings.user, truth.mode() == ratings.values) / count
    assert reliability.min() < 0.4
    assert reliability.max() > 0.8
    assert np.corrcoef(reliability, hits)[0, 1] > 0.9


def test_confidence_sharpens_the_truth() -> None:
    low, high = (make_ratings(confidence=c, random_state=0)[1].reliability().mean() for c in (0.5, 20))
    assert low < 0.5 < 0.8 < high


def test_the_truth_of_any_pair_can_be_asked_for() -> None:
    ratings, truth = make_ratings(30, 20, density=0.1, random_state=0)
    asked = truth.predict_proba(ratings.users[ratings.user], ratings.items[ratings.item])
    assert asked.probs.tolist() == truth.probs.tolist()
    user, item = np.divmod(np.arange(600), 20)
    every = truth.predict_proba(user + 1, item + 1)
    assert np.unique(every.probs.round(12), axis=0).shape == (600, 5)


def test_the_truth_knows_only_planted_pairs() -> None:
    _, truth = make_ratings(30, 20, random_state=0)
    with pytest.raises(
        UnknownNameError, match=r"users must be among those of the planted .* but 1 of 2 are not, .* position 1"
    ):
        truth.predict_proba([1, 31], [1, 1])
    with pytest.raises(UnknownNameError, match="items must be among those of the planted ratings, but 2 of 2 are not"):
        truth.predict_proba([1, 2], [0, 21])
    with pytest.raises(DataError, match="users and items must have one length, got 2 and 1"):
        truth.predict_proba([1, 2], [1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": 0}, "n_users must be a whole number of at least 1, got 0"),
        ({"n_users": True}, "n_users must be a whole number of at least 1, got True"),
        ({"n_items": 2.5}, "n_items must be a whole number of at least 1, got 2.5"),
        ({"n_scores": 1}, "n_scores must be a whole number from 2 to 127, got 1"),
        ({"n_scores": 128}, "n_scores must be a whole number from 2 to 127, got 128"),
        ({"n_factors": -1}, "n_factors must be a whole number of at least 0, got -1"),
        ({"density": 0.009}, r"density must lie from 0.01 \(one rating for every user and item\) to 1, got 0.009"),
        ({"density": 1.1}, "density must lie from 0.01 .* to 1, got 1.1"),
        ({"density": float("nan")}, "density must lie from 0.01 .* to 1, got nan"),
        ({"density": "much"}, "density must lie from 0.01 .* to 1, got 'much'"),
        ({"confidence": 0}, "confidence must be a finite number above zero, got 0"),
        ({"confidence": float("inf")}, "confidence must be a finite number above zero, got inf"),
        ({"confidence": None}, "confidence must be a finite number above zero, got None"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, a Generator or None, got -1"),
        ({"random_state": "x"}, "random_state must be a whole number of at least 0, a Generator or None, got 'x'"),
    ],
)
def test_wrong_parameters_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_ratings(**options)


def test_names_are_int_or_str() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown names 'float'\. Known: int, str"):
        make_ratings(names="float")
