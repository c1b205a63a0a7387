"""The page with two tabs, small limits, narrow columns, another model, wrong tokens and forced colours."""

import io
import json

import pytest
from PIL import Image

from browser.cinema import answers, ask, own_ratings, plain, rate, rate_five, slide, visit
from browser.test_page_for_all import find_faults

TOKEN = "open-sesame-open-sesame"


def second_tab(page, address):
    tab = page.context.new_page()
    tab.set_default_timeout(120_000)
    visit(tab, address)
    return tab


def rated(page):
    return page.locator(".to-rate.rated").count()


def wait_for_rated(page, n):
    page.wait_for_function("n => document.querySelectorAll('.to-rate.rated').length === n", arg=n)


def test_two_tabs_keep_each_others_ratings(page, cinema):
    other = second_tab(page, cinema)
    rate(page, 0, 5)
    rate(other, 1, 2)
    wait_for_rated(page, 2)
    assert len(own_ratings(page)) == 2
    rate(page, 2, 3)
    wait_for_rated(other, 3)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert sorted(film["rating"] for film in own_ratings(page)) == [2, 3, 5]


def test_the_newest_change_of_an_item_counts_in_both_tabs(page, cinema):
    rate(page, 0, 5)
    other = second_tab(page, cinema)
    rate(other, 0, 1)
    page.locator(".to-rate").first.locator("input[value='1']:checked").wait_for(state="attached")
    page.locator("#timing").filter(has_text="forecasts in").wait_for()
    assert [film["rating"] for film in own_ratings(page)] == [1]


def test_a_removal_in_one_tab_removes_in_the_other(page, cinema):
    rate(page, 0, 5)
    rate(page, 1, 4)
    other = second_tab(page, cinema)
    assert rated(other) == 2
    page.get_by_role("button", name="Take back the rating").first.click()
    wait_for_rated(other, 1)
    rate(other, 2, 3)
    wait_for_rated(page, 2)
    assert sorted(film["rating"] for film in own_ratings(other)) == [3, 4]


def test_clearing_in_one_tab_clears_the_other_and_leaves_no_trace_of_what_was_rated(page, cinema):
    rate(page, 0, 5)
    other = second_tab(page, cinema)
    other.get_by_role("button", name="Clear my ratings").click()
    wait_for_rated(page, 0)
    page.get_by_text("Your forecasts will appear here").wait_for()
    kept = page.evaluate("Object.entries(localStorage).find(([key]) => key.startsWith('starcast/ratings/'))[1]")
    assert (json.loads(kept)["ratings"], json.loads(kept)["removed"]) == ([], [])
    rate(page, 0, 4)
    wait_for_rated(other, 1)


@pytest.mark.parametrize("limits", [
    {"pairs": 7, "n": 3, "ratings": 2, "body_bytes": 1 << 20},
    {"pairs": 1000, "n": 500, "ratings": 1000, "body_bytes": 250},
], ids=["counts", "bytes"])  # fmt: skip
def test_the_page_asks_for_no_more_than_the_service_takes(new_page, cinema, limits):
    page, asked = new_page(), []
    model = ask(cinema, "api/model") | {"limits": limits}
    page.route("**/api/model", lambda route: route.fulfill(json=model))
    page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
    visit(page, cinema)
    for place, score in enumerate([5, 4, 1]):
        rate(page, place, score)
    page.locator(".film").first.get_by_role("button").click()
    page.locator(".ledger li").first.wait_for()
    page.get_by_role("combobox", name="Search films").fill("film number 40")
    with page.expect_response("**/api/fold-in"):
        page.get_by_role("option").first.click()
    assert len(asked) >= 5
    assert max(len(text.encode()) for text in asked) <= limits["body_bytes"]
    questions = [json.loads(text) for text in asked]
    for name, most in {"ratings": "ratings", "candidates": "pairs", "items": "pairs"}.items():
        assert max(len(question.get(name, [])) for question in questions) <= limits[most]
    assert max(question["n"] for question in questions) <= limits["n"]
    assert page.locator(".film").count() == min(20, limits["n"], len(questions[-2].get("candidates", [])) or 20)
    if limits["ratings"] == 2:
        assert [rating["rating"] for rating in questions[2]["ratings"]] == [4, 1]
        assert page.locator("#progress-words").inner_text() == "3 rated. The last 2 count"


def broken_words(page):
    """The words of titles that stand on more than one line."""
    return page.locator(".film h3 button").evaluate_all(
        """buttons => buttons.flatMap(button => {
            const text = button.firstChild, range = document.createRange();
            return [...text.data.matchAll(/[\\w’']+/g)].filter(word => {
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                return new Set([...range.getClientRects()].map(box => box.top)).size > 1;
            }).map(word => word[0]);
        })"""
    )


@pytest.mark.parametrize("width", [320, 640, 992, 1020, 1050, 1280])
def test_no_title_breaks_within_a_word(new_page, half_star_cinema, width):
    page = new_page(viewport={"width": width, "height": 800})

    def retitle(route):
        answer = route.fetch().json()
        for film in answer["recommendations"]:
            film["title"] = "Schindler's Terminator Salvation"
        route.fulfill(json=answer)

    page.route("**/api/fold-in", retitle)
    visit(page, half_star_cinema)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for place, score in enumerate([4.5, 3]):
        rate(page, place, score)
    slide(page, 0.45)
    assert broken_words(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    least, dial = page.locator("#threshold-words").bounding_box(), page.locator("#dial").bounding_box()
    assert least["x"] + least["width"] <= dial["x"] + dial["width"]


def switch_to(page, address):
    """Answer the page from another service from now on."""

    def forward(route):
        path = route.request.url.split("/", 3)[3]
        route.fulfill(response=route.fetch(url=f"{address}/{path}"))

    page.route("**/api/**", forward)


def test_a_new_scale_under_an_open_page_is_taken_over_with_the_ratings(page, half_star_cinema):
    rate_five(page)
    slide(page, 0.3)
    switch_to(page, half_star_cinema)
    page.locator(".to-rate").nth(5).locator("label:has(input[value='2'])").click()
    page.get_by_role("alert").get_by_text("A new model is served. Your ratings are kept.").wait_for()
    assert page.locator(".film").first.locator(".bar").count() == 10
    assert "NaN" not in page.locator("body").inner_text()
    labels = page.locator("[aria-label]").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert not any("NaN" in label for label in labels)
    assert [film["rating"] for film in own_ratings_of(page, half_star_cinema)] == [5, 4, 1, 3, 5, 2]
    assert page.locator(".to-rate").first.get_by_role("radio").count() == 10
    assert page.locator("#threshold").input_value() == "0.3"
    assert "own forecasts" in page.locator("#source").inner_text()
    page.get_by_role("radio", name="Someone it knows").check()
    page.get_by_text("Whose forecasts?").wait_for()


def own_ratings_of(page, address):
    digest = ask(address, "api/model")["data"]["digest"]
    return json.loads(page.evaluate("key => localStorage.getItem(key)", f"starcast/ratings/{digest}"))["ratings"]


def test_ratings_that_the_new_scale_does_not_have_are_dropped_with_a_sentence(new_page, half_star_cinema, cinema):
    page = new_page(excused=["422"])
    visit(page, half_star_cinema)
    for place, score in enumerate([4.5, 3, 5]):
        rate(page, place, score)
    switch_to(page, cinema)
    before = answers(page)
    page.locator(".to-rate").nth(3).locator("label:has(input[value='2'])").click()
    page.get_by_text("it cannot use 1 of your 4 ratings").wait_for()
    page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=before)
    assert [film["rating"] for film in own_ratings_of(page, cinema)] == [3, 5, 2]
    assert rated(page) == 3
    assert page.locator(".film").first.locator(".bar").count() == 5


def test_a_new_model_of_other_films_takes_none_of_the_ratings(page, half_star_cinema):
    rate_five(page)

    def forward(route):
        answer = route.fetch(url=f"{half_star_cinema}/{route.request.url.split('/', 3)[3]}").json()
        for film in answer.get("forecasts", []):
            film["title"] = f"Another {film['title']}"
        route.fulfill(json=answer)

    page.route("**/api/**", forward)
    page.locator(".to-rate").nth(5).locator("label:has(input[value='2'])").click()
    page.get_by_text("it cannot use 6 of your 6 ratings").wait_for()
    page.get_by_text("Your forecasts will appear here").wait_for()
    assert rated(page) == 0


def test_coming_back_to_the_page_shows_the_model_that_is_served_by_then(page, half_star_cinema):
    switch_to(page, half_star_cinema)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("alert").get_by_text("A new model is served.").wait_for()
    assert page.locator(".to-rate").first.get_by_role("radio").count() == 10


def test_a_wrong_token_is_told_and_asked_for_again(new_page, guarded_cinema):
    page = new_page(excused=["401"])
    page.goto(guarded_cinema)
    notice, box = page.get_by_role("alert"), page.get_by_label("Token")
    for token, told in [
        ("ключ-от-всех-дверей", "only letters, digits and signs of ASCII"),
        ("not-the-right-token", "does not accept this token"),
    ]:
        box.fill(token)
        page.get_by_role("button", name="Use it").click()
        notice.get_by_text(told).wait_for()
        assert page.evaluate("document.activeElement.matches('#notice input')")
        assert page.evaluate("sessionStorage.getItem('starcast/token')") is None
    box.fill(f" {TOKEN} ")
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("html[data-ready]")
    notice.wait_for(state="hidden")


def test_a_stored_token_that_no_header_can_carry_does_not_lock_the_page(new_page, guarded_cinema):
    page = new_page(excused=["401"])
    page.add_init_script("sessionStorage.setItem('starcast/token', 'ключ')")
    page.goto(guarded_cinema)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("html[data-ready]")


def test_a_token_that_was_changed_under_an_open_page_is_asked_for(new_page, guarded_cinema):
    page = new_page(excused=["401"])
    page.goto(guarded_cinema)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("html[data-ready]")
    told = {"error": {"code": "no_token", "message": "a request must have the token, got another."}}
    page.route("**/api/**", lambda route: route.fulfill(status=401, json=told))
    page.get_by_role("button", name="Pick someone for me").click()
    page.get_by_role("alert").get_by_text("does not accept this token").wait_for()
    page.unroute("**/api/**")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("alert").wait_for(state="hidden")
    page.get_by_role("button", name="Pick someone for me").click()
    page.locator(".film").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_show_the_track_of_the_slider(new_page, cinema, scheme):
    page = new_page(forced_colors="active", color_scheme=scheme)
    visit(page, cinema)
    slide(page, 0.5)
    picture = Image.open(io.BytesIO(page.locator("#threshold").screenshot())).convert("RGB")
    wide, tall = picture.size
    below, above = ([picture.getpixel((x, y)) for y in range(tall)] for x in (wide // 4, 3 * wide // 4))
    assert below[tall // 2 - 4 : tall // 2 + 4] != [below[4]] * 8  # the edges of a hollow track
    assert above[tall // 2] != above[4]
    assert below != above


def test_forced_colours_show_what_is_chosen(new_page, cinema):
    page = new_page(forced_colors="active")
    visit(page, cinema)
    chosen, other = (
        page.locator("#who span").nth(at).evaluate("e => getComputedStyle(e).backgroundColor") for at in (0, 1)
    )
    assert chosen != other


def test_axe_finds_no_serious_fault_in_the_notices(new_page, cinema, half_star_cinema, guarded_cinema):
    page = new_page(excused=["401"], reduced_motion="reduce", bypass_csp=True)
    page.goto(guarded_cinema)
    page.get_by_label("Token").fill("not-the-right-token")
    page.get_by_role("button", name="Use it").click()
    page.get_by_text("does not accept this token").wait_for()
    assert find_faults(page) == []
    page = new_page(reduced_motion="reduce", bypass_csp=True, color_scheme="dark")
    visit(page, cinema)
    rate(page, 0, 5)
    switch_to(page, half_star_cinema)
    page.locator(".to-rate").nth(1).locator("label:has(input[value='2'])").click()
    page.get_by_role("alert").get_by_text("A new model is served").wait_for()
    assert find_faults(page) == []


def test_the_alert_of_a_new_model_goes_with_the_next_answer(page, half_star_cinema):
    rate(page, 0, 4)
    switch_to(page, half_star_cinema)
    page.locator(".to-rate").nth(1).locator("label:has(input[value='2'])").click()
    notice = page.get_by_role("alert")
    notice.get_by_text("A new model is served").wait_for()
    rate(page, 2, 3)
    notice.wait_for(state="hidden")
    assert plain(page.locator("#facts").inner_text()).startswith("OrdinalMF")
