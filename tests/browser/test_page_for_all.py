"""The page by keyboard, on a phone, in the dark, for screen readers, and when the service is away."""

import pytest

from browser.cinema import PHONE, answers, own_ratings, plain, rate, rate_five, slide, visit, want

SERIOUS = {"serious", "critical"}


def press_until(page, key, test, most=80):
    """Press a key until the focused element passes a test, given as JavaScript of `e`."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate(f"(e => {test})(document.activeElement)"):
            return
    raise AssertionError(f"{most} times {key} do not lead to {test}")


def test_from_start_to_explanation_by_keyboard_alone(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the forecasts"
    press_until(page, "Tab", "e.id === 'film-search'")
    page.keyboard.insert_text("the matrix")  # at once: a list for half of it would not be marked for long
    page.get_by_role("option", name="The Matrix").wait_for()
    page.keyboard.press("ArrowDown")
    assert page.locator("#film-search").get_attribute("aria-activedescendant") == "film-search-list-0"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('fieldset').textContent").startswith(
        "Your rating of The Matrix"
    )
    page.keyboard.press("Space")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.locator(".film").first.wait_for()
    page.wait_for_function("() => !document.querySelector('#films').hasAttribute('aria-busy')")
    assert own_ratings(page)[0]["rating"] == 5
    press_until(page, "Tab", "e.id === 'threshold'")
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    assert page.locator("#threshold").input_value() == "0.4"
    press_until(page, "Tab", "e.closest('.film h3') !== null")
    assert page.evaluate("getComputedStyle(document.activeElement, '::after').outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.locator(".ledger").first.wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert page.locator(".why:not([hidden])").count() == 1


def test_the_skip_link_leads_to_the_forecasts(page):
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"


def test_escape_closes_the_list_and_the_focus_stays(page):
    box = page.get_by_role("combobox", name="Search films")
    box.click()
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"
    assert page.evaluate("document.activeElement.id") == "film-search"


def test_results_are_announced(page):
    rate(page, 0, 5)
    page.wait_for_function("() => document.getElementById('status').textContent.includes('20 forecasts. First: ')")


def test_a_phone_has_no_sideways_scroll_and_targets_for_fingers(phone):
    rate_five(phone)
    phone.locator(".film").first.get_by_role("button").click()
    phone.locator(".ledger").wait_for()
    slide(phone, 0.5)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    small = phone.evaluate(
        """() => [...document.querySelectorAll('a, button, input, select')]
            .filter(e => e.checkVisibility() && !e.matches('.skip'))
            .map(e => e.closest('label:has(input), .face') ?? e)
            .filter(e => { const box = e.getBoundingClientRect(); return box.width < 40 || box.height < 40; })
            .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert small == []


def test_a_phone_keeps_the_slider_in_sight(phone):
    rate_five(phone)
    phone.locator(".film").nth(10).scroll_into_view_if_needed()
    assert phone.locator("#threshold").bounding_box()["y"] < 200
    assert phone.locator("#threshold").bounding_box()["y"] > 0


def test_half_star_chips_fit_a_phone(new_page, half_star_cinema):
    page = new_page(**PHONE)
    visit(page, half_star_cinema)
    rate(page, 0, 4.5)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert min(chip.bounding_box()["width"] for chip in page.locator(".to-rate").first.locator("label").all()) >= 40


def test_the_page_lives_on_without_the_service_and_recovers(new_page, cinema):
    page = new_page(excused=["ERR_INTERNET_DISCONNECTED"])
    visit(page, cinema)
    rate_five(page)
    before = page.locator(".film h3").all_inner_texts()
    page.context.set_offline(True)
    page.locator(".to-rate").first.locator("label:has(input[value='1'])").click()
    notice = page.get_by_role("alert")
    notice.wait_for()
    assert "cannot be reached" in notice.inner_text()
    assert page.locator(".film h3").all_inner_texts() == before
    slide(page, 0.5)
    assert plain(page.locator("#sentence").inner_text()).startswith("Keeps")
    page.get_by_role("combobox", name="Search films").fill("matrix")
    assert own_ratings(page)[0]["rating"] == 1
    shown = answers(page)
    page.context.set_offline(False)
    page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=shown)
    notice.wait_for(state="hidden")
    assert page.locator(".film h3").all_inner_texts() != before


def test_a_page_that_opens_before_the_service_is_ready_waits_for_it(new_page, cinema):
    page = new_page(excused=["503"])
    busy = {"error": {"code": "not_ready", "message": "the model is not loaded yet."}}
    page.route("**/api/model", lambda route: route.fulfill(status=503, json=busy))
    page.goto(cinema)
    assert "busy" in page.get_by_role("alert").inner_text()
    page.unroute("**/api/model")
    page.wait_for_selector("html[data-ready]")
    page.get_by_role("alert").wait_for(state="hidden")


def test_a_refusal_is_told_in_the_words_of_the_service_and_as_text(new_page, cinema):
    page = new_page(excused=["422"])
    visit(page, cinema)
    told = {"error": {"code": "bad_request", "message": "n must be <b>small</b>, got 7."}}
    page.route("**/api/fold-in", lambda route: route.fulfill(status=422, json=told))
    page.locator(".to-rate").first.locator("label:has(input[value='1'])").click()
    page.get_by_text("The service declined: n must be <b>small</b>, got 7.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_they_are_chosen(new_page, cinema, scheme):
    page = new_page(color_scheme=scheme)
    visit(page, cinema)

    def is_dark():
        return page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(c => c < 60)")

    assert is_dark() == (scheme == "dark")
    page.get_by_role("button", name="Dark colours").click()
    assert is_dark() == (scheme != "dark")
    page.reload()
    assert is_dark() == (scheme != "dark")


@pytest.mark.parametrize("barred", [
    "Storage.prototype.setItem = () => { throw new DOMException('barred') }",
    "for (const kind of ['localStorage', 'sessionStorage'])"
    "  Object.defineProperty(window, kind, { get() { throw new DOMException('barred', 'SecurityError') } })",
])  # fmt: skip
def test_a_barred_storage_is_no_hindrance(new_page, cinema, barred):
    page = new_page()
    page.add_init_script(barred)
    visit(page, cinema)
    rate(page, 0, 5)
    page.get_by_role("button", name="Dark colours").click()
    assert page.locator(".film").count() == 20


def find_faults(page):
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        want("axe-playwright-python")
    page.wait_for_timeout(450)  # what still moves or fades has other colours
    violations = Axe().run(page).response["violations"]
    return [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in violations if v["impact"] in SERIOUS]


def test_axe_finds_no_serious_fault_by_day(new_page, cinema):
    page = new_page(color_scheme="light", reduced_motion="reduce", bypass_csp=True)
    visit(page, cinema)
    assert find_faults(page) == []
    page.get_by_role("radio", name="Someone it knows").check()
    page.get_by_role("button", name="Pick someone for me").click()
    page.locator(".liked li").first.wait_for()
    page.locator(".film").first.wait_for()
    assert find_faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_with_everything_open(new_page, cinema, scheme):
    page = new_page(color_scheme=scheme, reduced_motion="reduce", bypass_csp=True, **PHONE)
    visit(page, cinema)
    rate_five(page)
    page.locator(".film").nth(1).get_by_role("button").click()
    page.locator(".ledger").wait_for()
    slide(page, 0.5)
    page.get_by_role("combobox", name="Search films").fill("film")
    page.get_by_role("option").first.wait_for()
    assert find_faults(page) == []
