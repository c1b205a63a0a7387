"""The page in Chromium: what a visitor does, and whether what is shown is what the service says."""

import re

import pytest

from browser.cinema import EVIL, answers, ask, own_ratings, percent, plain, rate, rate_five, slide, visit


def shown(page):
    """Title, verdict and whether it is silent, of every forecast on the page."""
    rows = page.locator(".film").all()
    return [
        (
            plain(row.locator("h3").inner_text()),
            plain(row.locator(".verdict > span").inner_text()),
            "silent" in row.get_attribute("class"),
        )
        for row in rows
    ]


def test_five_ratings_give_the_forecasts_of_the_service(page, cinema):
    assert page.locator(".film").count() == 0
    rate_five(page)
    ratings = own_ratings(page)
    assert [rating["rating"] for rating in ratings] == [5, 4, 1, 3, 5]
    said = ask(cinema, "api/fold-in", {"ratings": ratings, "n": 20})["recommendations"]
    assert len(said) == 20
    for forecast, (title, verdict, silent) in zip(said, shown(page), strict=True):
        assert sorted(re.findall(r"\w+", forecast["title"])) == sorted(re.findall(r"\w+", title))
        assert verdict.endswith(f"· {percent(forecast['reliability'])}")
        assert not silent
    first = page.locator(".film").first
    assert first.locator(".verdict b").inner_text().startswith(f"{said[0]['prediction']:g}")
    heights = [bar.evaluate("e => Number(getComputedStyle(e).getPropertyValue('--p'))") for bar in first.locator(".bar").all()]  # fmt: skip
    assert heights == pytest.approx(said[0]["probs"])
    assert f"{20} forecasts in" in plain(page.locator("#timing").inner_text())


def test_a_changed_rating_changes_the_forecasts_at_once(page):
    rate_five(page)
    before = shown(page)
    rate(page, 0, 1)
    assert shown(page) != before
    page.get_by_role("button", name="Take back the rating").first.click()
    assert page.locator(".to-rate.rated").count() == 4


def test_the_slider_fades_what_is_not_sure_and_says_what_that_costs(page, cinema):
    rate_five(page)
    said = ask(cinema, "api/fold-in", {"ratings": own_ratings(page), "n": 20})["recommendations"]
    card = ask(cinema, "api/model")["card"]
    for threshold in (0.31, 0.45, 0.6, 0.99, 0.0):
        slide(page, threshold)
        check_fading(page, [forecast["reliability"] >= threshold for forecast in said])
        check_bargain(page, next(step for step in card["curve"] if step["threshold"] == threshold), card["n"])


def check_fading(page, sure):
    assert [not silent for _, _, silent in shown(page)] == sure
    assert page.locator(".rug i:not(.silent)").count() == sum(sure)
    words = plain(page.locator("#standing").inner_text())
    assert words == (f"{sum(sure)} of 20 are sure enough" if not all(sure) else "all 20 are sure enough")


def check_bargain(page, step, pairs):
    sentence = plain(page.locator("#sentence").inner_text())
    assert sentence in plain(page.locator("#threshold").get_attribute("aria-valuetext"))
    if step["coverage"] * pairs < 30:
        assert sentence.startswith("Keeps nothing") or "too few" in sentence
        return
    assert sentence == f"Keeps {percent(step['coverage'])} of forecasts, right {percent(step['accuracy'])} of the time."
    assert float(page.locator("#chart .dot").get_attribute("cx")) == pytest.approx(40 + 268 * step["coverage"], abs=0.1)
    assert plain(page.locator("#chart .chosen").text_content()) == f"{percent(1 - step['accuracy'])} wrong"


def test_the_curve_says_where_it_comes_from(page, cinema, new_page, half_star_cinema):
    n = ask(cinema, "api/model")["card"]["n"]
    assert page.locator("#source").inner_text().startswith(f"Measured on {n} held-out ratings")
    other = new_page()
    visit(other, half_star_cinema)
    assert "own forecasts" in other.locator("#source").inner_text()


def test_search_forgives(page):
    for query in ("the matrix", "matrix 1999", "MATR", "  matrix  the "):
        page.get_by_role("combobox", name="Search films").fill(query)
        page.get_by_role("option", name="The Matrix 1999").click()
        assert page.locator(".to-rate").first.locator(".title").inner_text().startswith("The Matrix")
        assert page.evaluate("document.activeElement.closest('.to-rate') === document.querySelector('.to-rate')")


def test_enter_takes_what_was_typed_however_fast(page):
    box = page.get_by_role("combobox", name="Search films")
    box.click()
    page.get_by_role("option").first.wait_for()
    box.press_sequentially("fargo", delay=0)
    box.press("Enter")
    page.wait_for_function("() => document.activeElement.type === 'radio'")
    assert page.locator(".to-rate").first.locator(".title").inner_text().startswith("Fargo")


def test_a_search_without_an_answer_says_so(page):
    page.get_by_role("combobox", name="Search films").fill("zzzz")
    page.get_by_text("Nothing found for “zzzz”").wait_for()


def test_titles_are_told_as_people_say_them(page):
    box = page.get_by_role("combobox", name="Search films")
    for query, title in [("amelie", "Amélie (Le Fabuleux destin d'Amélie Poulain)"), ("godfather", "The Godfather")]:
        box.fill(query)
        page.get_by_role("option", name=title).wait_for()


def test_one_film_of_a_series_is_offered(page):
    titles = page.locator(".to-rate .title").all_inner_texts()
    assert sum(title.startswith("Star Wars") for title in titles) <= 1


def test_a_catalogue_of_nothing_but_siblings_is_offered_all_the_same(new_page, cinema):
    page = new_page()
    films = [film | {"title": f"Star Wars {film['item']}"} for film in ask(cinema, "api/items?limit=8")["items"]]
    page.route("**/api/items*", lambda route: route.fulfill(json={"items": films, "total": len(films)}))
    visit(page, cinema)
    assert page.locator(".to-rate").count() == 6


def test_a_click_tells_why(page, cinema):
    rate_five(page)
    said = ask(cinema, "api/fold-in", {"ratings": own_ratings(page), "n": 3})["recommendations"][1]
    why = ask(cinema, "api/explain", {"ratings": own_ratings(page), "item": said["item"], "n": 5})["reasons"]
    row = page.locator(".film").nth(1)
    row.get_by_role("button").click()
    row.locator(".ledger li").first.wait_for()
    figures = [text.split()[0].replace("−", "-") for text in row.locator(".ledger .figure").all_text_contents()]
    why.sort(key=lambda reason: -abs(reason["shift"]))
    expected = [0.0 if abs(reason["shift"]) < 0.005 else reason["shift"] for reason in why]
    assert [float(figure.replace("±", "")) for figure in figures] == pytest.approx(expected, abs=0.00501)
    chances = [plain(text) for text in row.locator(".chances .figure").all_inner_texts()]
    assert len(chances) == 5
    assert percent(said["reliability"]) in chances
    row.get_by_role("button").click()
    assert not row.locator(".why").is_visible()


def test_what_was_forecast_before_a_rating_is_remembered(page, cinema):
    rate(page, 0, 5)
    first, title = own_ratings(page), page.locator(".to-rate").nth(1).locator(".title")
    item = ask(cinema, "api/items?query=" + title.inner_text().split()[-2])["items"][0]["item"]
    forecast = ask(cinema, "api/fold-in", {"ratings": first, "items": [item]})["forecasts"][0]
    rate(page, 1, 2)
    told = plain(page.locator(".to-rate").nth(1).locator(".under").inner_text())
    assert told == f"it said {forecast['prediction']:g} · {percent(forecast['reliability'])}"


def test_a_film_found_by_search_is_forecast_before_it_is_rated(page, cinema):
    rate(page, 0, 5)
    with page.expect_response("**/api/fold-in") as answer:
        page.get_by_role("combobox", name="Search films").fill("film number 40")
        page.get_by_role("option").first.click()
    forecast = answer.value.json()["forecasts"][0]
    rate(page, 0, 5)
    told = plain(page.locator(".to-rate").first.locator(".under").inner_text())
    assert told.endswith(f"it said {forecast['prediction']:g} · {percent(forecast['reliability'])}")


def test_reasons_that_come_late_do_not_replace_newer_ones(page):
    rate_five(page)
    held = []
    page.route("**/api/explain", lambda route: held.append(route) if not held else route.continue_())
    page.locator(".film").first.get_by_role("button").click()
    page.get_by_text("Leaving out your ratings in turn").wait_for()
    rate(page, 0, 4)
    page.locator(".ledger").wait_for()
    reasons = page.locator(".reasons").inner_text()
    held[0].fulfill(json={"reasons": []})
    page.wait_for_timeout(100)
    assert page.locator(".reasons").inner_text() == reasons


def test_all_films_or_the_well_known(page, cinema):
    rate_five(page)
    before, well_known = answers(page), shown(page)
    page.get_by_role("radio", name="All films").check()
    page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=before)
    assert shown(page) == well_known  # the cinema has fewer films than count as well known
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None)
    rate(page, 5, 2)
    page.get_by_role("radio", name="Well-known films").check()
    page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=before + 2)
    everything = {film["item"] for film in ask(cinema, "api/items?limit=100")["items"]}
    assert "candidates" not in asked[0]
    assert set(asked[-1]["candidates"]) == everything


def test_well_known_films_that_a_new_model_does_not_know_are_asked_for_again(new_page, cinema):
    page = new_page(excused=["404"])
    visit(page, cinema)
    rate(page, 0, 3)
    lists = []

    def refuse_once(route):
        lists.append(route.request.post_data_json["candidates"])
        told = {"error": {"code": "unknown_item", "message": "one of the candidates is unknown."}}
        route.fulfill(status=404, json=told) if len(lists) == 1 else route.continue_()

    page.route("**/api/fold-in", refuse_once)
    with page.expect_request("**/api/items?**limit=100**"):
        rate(page, 1, 4)
    assert len(lists) == 2
    assert page.get_by_role("alert").count() == 0


def test_surer_films_can_be_asked_for(page, cinema):
    rate_five(page)
    slide(page, 0.6)
    before = answers(page)
    page.get_by_role("button", name="Find surer ones").click()
    page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=before)
    said = ask(cinema, "api/fold-in", {"ratings": own_ratings(page), "n": 20, "threshold": 0.6})["recommendations"]
    assert page.locator(".film").count() == len(said)
    assert not any(silent for _, _, silent in shown(page))
    page.get_by_role("button", name="Show all again").click()
    page.wait_for_function("() => document.querySelectorAll('.film').length === 20")


def test_someone_it_knows(page, cinema):
    page.get_by_role("radio", name="Someone it knows").check()
    page.get_by_role("combobox", name="Search users").fill("23")
    page.get_by_role("option", name=re.compile("^User 23 ")).click()
    page.locator(".film").first.wait_for()
    assert page.locator(".who").inner_text() == "User 23"
    said = ask(cinema, "api/recommend", {"user": 23, "n": 20})["recommendations"]
    assert [verdict.split("· ")[1] for _, verdict, _ in shown(page)] == [percent(f["reliability"]) for f in said]
    given = ask(cinema, "api/ratings?user=23&limit=10")["ratings"]
    assert page.locator(".liked li").count() == len(given)
    page.locator(".film").first.get_by_role("button").click()
    page.get_by_text("they gave").first.wait_for()


def test_names_beyond_what_javascript_can_count_are_kept_to_the_digit(page, cinema):
    name, asked = 9007199254740993, []  # JavaScript reads …992
    page.route(
        "**/api/users?**", lambda route: route.fulfill(json={"users": [{"user": name, "n_ratings": 3}], "total": 1})
    )
    page.route(
        "**/api/ratings?**", lambda route: asked.append(route.request.url) or route.fulfill(json={"ratings": []})
    )
    row = ask(cinema, "api/recommend", {"user": 23, "n": 1})["recommendations"][0] | {"item": name + 2, "title": ""}

    def answer(route):
        asked.append(route.request.post_data_json)
        route.fulfill(json={"user": name, "scores": [1, 2, 3, 4, 5], "recommendations": [row]})

    page.route("**/api/recommend", answer)
    page.route(
        "**/api/explain",
        lambda route: asked.append(route.request.post_data_json) or route.fulfill(json={"reasons": []}),
    )
    page.get_by_role("radio", name="Someone it knows").check()
    page.get_by_role("combobox", name="Search users").fill("9")
    page.get_by_role("option", name=f"User {name}").click()
    page.locator(".film").first.get_by_role("button", name=str(name + 2)).click()
    page.get_by_text("What moved it").wait_for()
    assert f"user={name}&" in next(url for url in asked if isinstance(url, str))
    posts = [post for post in asked if not isinstance(post, str)]
    assert {post["user"] for post in posts} == {str(name)}
    assert posts[-1]["item"] == str(name + 2)
    assert posts[0]["candidates"][0] == ask(cinema, "api/items?limit=1")["items"][0]["item"]  # small ones stay numbers


def test_titles_are_text_whatever_they_say(page):
    box = page.get_by_role("combobox", name="Search films")
    for query, title in zip(["script", "onerror", "bold"], EVIL, strict=True):
        box.fill(query)
        option = page.get_by_role("option").filter(has_text=title)
        option.wait_for()
        option.click()
        rate(page, 0, 5)
        assert page.locator(".to-rate").first.locator(".title").inner_text() == title
    page.locator(".film").first.get_by_role("button").click()
    page.locator(".ledger").wait_for()
    assert set(page.locator(".cause").evaluate_all("all => all.map(e => e.firstChild.data)")) == set(EVIL)
    assert page.title().startswith("Starcast")
    assert page.locator("main script, main b b, main img").count() == 0


def test_reload_keeps_everything_and_clear_forgets_it(page, cinema):
    rate_five(page)
    slide(page, 0.4)
    before, ratings = shown(page), own_ratings(page)
    page.reload()
    page.locator(".film").first.wait_for()
    assert (shown(page), own_ratings(page)) == (before, ratings)
    assert page.locator("#threshold").input_value() == "0.4"
    page.get_by_role("button", name="Clear my ratings").click()
    page.get_by_text("Your forecasts will appear here").wait_for()
    assert page.locator(".film").count() == 0
    visit(page, cinema)
    assert page.locator(".to-rate.rated").count() == 0


def test_half_stars_and_more_scores_have_their_own_controls(new_page, half_star_cinema):
    page = new_page()
    visit(page, half_star_cinema)
    row = page.locator(".to-rate").first
    assert [radio.get_attribute("aria-label").replace("\u00a0", " ") for radio in row.get_by_role("radio").all()[:3]] == [
        "0.5 stars", "1 star", "1.5 stars",
    ]  # fmt: skip
    rate(page, 0, 4.5)
    assert own_ratings(page)[0]["rating"] == 4.5
    assert page.locator(".film").first.locator(".bar").count() == 10


def test_a_service_with_a_token_asks_for_it_and_a_model_without_newcomers_says_so(new_page, guarded_cinema):
    page = new_page(excused=["401"])
    page.goto(guarded_cinema)
    page.get_by_label("Token").fill("open-sesame-open-sesame")
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("html[data-ready]")
    assert page.get_by_role("radio", name="I’m new here").is_disabled()
    page.get_by_role("button", name="Pick someone for me").click()
    page.locator(".film").first.wait_for()
    page.locator(".film").first.get_by_role("button").click()
    page.get_by_text("cannot say which ratings moved it").wait_for()
