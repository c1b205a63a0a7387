"""The sound protocol."""

import numpy as np
import pytest

import starcast as sc
from starcast import metrics, sound
from starcast.errors import DivergenceError, UnknownNameError
from starcast.sound import CONTENDERS, MEASURES, Contender, choose_parameters, make_statistics, run_sound


@pytest.fixture(scope="module")
def ratings():
    return sc.make_ratings(n_users=150, n_items=100, density=0.35, random_state=0)[0]


@pytest.fixture(scope="module")
def found(ratings):
    return run_sound(ratings, contenders=("global", "bayes", "resbemf", "pmf"), n_seeds=2, n_resamples=60)


def test_every_contender_is_shown_as_it_is_and_tempered(found):
    assert [(row["model"], row["calibrated"]) for row in found.overall] == [
        (CONTENDERS[key].title, calibrated)
        for key in ("global", "bayes", "resbemf", "pmf")
        for calibrated in (False, True)
    ]
    assert len(found.curves) == 8 * len(sound.THRESHOLDS)


def test_intervals_hold_the_estimates(found):
    for row in found.overall:
        for name in MEASURES:
            slack = 0.03 if name == "ece" else 0  # resampling adds noise to a gap that cannot be negative
            assert row[f"{name} low"] - slack <= row[name] <= row[f"{name} high"] + slack


def test_tempering_changes_no_mode(found):
    for name in ("accuracy", "1-MAE of the mode"):
        plain, tempered = (found.overall.where(calibrated=c)[name] for c in (False, True))
        assert plain == pytest.approx(tempered)


def measured(test, answer, weight):
    return {name: statistic(weight[None])[0] for name, statistic in make_statistics(test, answer).items()}


def test_with_all_users_once_the_measures_are_the_usual_ones(ratings):
    train, test = sc.benchmark_split(ratings)
    answer = sc.NaiveBayes().fit(train).predict_proba(test.users[test.user], test.items[test.item])
    own = measured(test, answer, np.ones(len(test.users)))
    usual = metrics.paper_measures(test, answer, [0.0])
    assert own["nll"] == pytest.approx(metrics.nll(test.values, answer))
    assert own["rps"] == pytest.approx(metrics.rps(test.values, answer))
    assert own["ece"] == pytest.approx(metrics.ece(test.values, answer))
    assert own["aurc"] == pytest.approx(metrics.aurc(test.values, answer))
    assert own["accuracy"] == pytest.approx(usual["accuracy"][0])
    assert own["1-MAE of the mode"] == pytest.approx(usual["1-MAE"][0])
    of_median = metrics.paper_measures(test, answer, [0.0], point=answer.median())
    assert own["1-MAE of the median"] == pytest.approx(of_median["1-MAE"][0]) != own["1-MAE of the mode"]


def test_a_user_counted_twice_is_a_user_who_rated_twice(ratings):
    train, test = sc.benchmark_split(ratings)
    answer = sc.NaiveBayes().fit(train).predict_proba(test.users[test.user], test.items[test.item])
    twice = np.concatenate([np.arange(len(test)), np.flatnonzero(test.user == 0)])
    weight = np.ones(len(test.users))
    weight[0] = 2
    own = measured(test, answer, weight)
    assert own["nll"] == pytest.approx(metrics.nll(test.values[twice], answer[twice]))
    assert own["ece"] == pytest.approx(metrics.ece(test.values[twice], answer[twice]))


def test_parameters_are_chosen_on_training_alone(ratings):
    train, _ = sc.benchmark_split(ratings)
    validation = [sc.benchmark_split(train, random_state=1)]
    contender = Contender("x", "item", {}, {"shrinkage": (0.5, 8.0, 1000.0)})
    params, temperature = choose_parameters(contender, validation)
    losses = {
        k: sc.evaluate(sc.ItemFrequency(k).fit(validation[0].train), validation[0].test, [0.0]).rows[0]["nll"]
        for k in (0.5, 8.0, 1000.0)
    }
    assert params == {"shrinkage": min(losses, key=losses.get)}
    assert 0.125 < temperature < 8


def test_settings_that_diverge_are_out(ratings):
    train, _ = sc.benchmark_split(ratings)
    validation = [sc.benchmark_split(train, random_state=1)]
    some = Contender("x", "pmf", {"n_iters": 20}, {"learning_rate": (900.0, 0.01)})
    assert choose_parameters(some, validation)[0]["learning_rate"] == 0.01
    with pytest.raises(DivergenceError, match=r"every setting of x diverged\. Lower the learning rates"):
        choose_parameters(Contender("x", "pmf", {}, {"learning_rate": (900.0,)}), validation)


def test_an_unknown_contender_is_guessed(ratings):
    with pytest.raises(UnknownNameError, match=r"unknown contender 'bays'\. Did you mean 'bayes'\?"):
        run_sound(ratings, contenders=("bays",))


def test_progress_is_told(ratings):
    words = []
    run_sound(ratings, contenders=("item",), n_resamples=5, on_progress=words.append)
    assert words == ["choosing the parameters of item frequencies", "fitting item frequencies", "resampling"]


def test_the_command_writes_tables_and_figures(ratings, tmp_path, monkeypatch):
    from starcast import sound_report

    monkeypatch.setattr(sound_report, "load_dataset", lambda name: ratings)
    found = sound_report.reproduce_soundly("ml-100k", tmp_path, contenders=("item", "bayes"), n_seeds=1, n_resamples=5)
    names = {path.name for path in (tmp_path / "ml-100k" / "sound").iterdir()}
    pictures = {f"error-coverage{kind}.{ending}" for kind in ("", "-tempered") for ending in ("png", "svg")}
    tables = {f"{name}.csv" for name in ("overall", "differences", "settings", "curves")}
    assert names == tables | pictures | {"report.html"}
    assert "naive Bayes" in (tmp_path / "ml-100k" / "sound" / "overall.csv").read_text()
    overall, *_ = sound_report.sound_table(found).renderables
    assert overall.row_count == 2 * len(found.overall)


def test_only_data_sets_of_the_paper_are_reproduced(tmp_path):
    from starcast.sound_report import reproduce_soundly

    with pytest.raises(UnknownNameError, match="unknown data set of the paper 'sample'"):
        reproduce_soundly("sample", tmp_path)
