// The page: who asks, what is asked of the service, and what the slider does to the answers.

import { get, latest, post, Refused } from "./api.js";
import { Combobox } from "./combobox.js";
import { Connection } from "./connection.js";
import { at, Chart, FULL, SMALL } from "./curve.js";
import { announce, byId, make } from "./dom.js";
import { Empty } from "./empty.js";
import { Forecasts } from "./forecasts.js";
import { Known } from "./known.js";
import { within } from "./limits.js";
import { Shelf } from "./shelf.js";
import { Store } from "./store.js";
import { count, isThin, number, percent, plural, saySentence, sayTitle, sureness, unit } from "./text.js";
import { showNoWhy, showWaiting, showWhy } from "./why.js";

const N = 20;
const FAMOUS = 100; // how many of the most rated films count as well known

class Page {
  constructor() {
    this.ask = latest();
    this.asked = new WeakMap();
    this.empty = new Empty();
    this.forecasts = new Forecasts({ onOpen: (film, panel) => this.#tellWhy(film, panel) });
    this.shelf = new Shelf({
      onChange: (said) => this.refresh(said),
      onBring: (film) => this.#foresee(film),
      onFail,
    });
    this.known = new Known({ onChoose: () => this.refresh(), onFail });
    this.#wire();
  }

  /** Show everything of a model: the first one, or one that is served in its place. */
  async open(model, store = this.#makeStore(model)) {
    if (this.store !== store) this.store?.close();
    Object.assign(this, { model, store, scores: model.scores, famous: null });
    this.floor = 0; // the least reliability that the listed films were asked for
    this.empty.scores = this.forecasts.scores = model.scores;
    this.forecasts.show([]);
    byId("films").removeAttribute("aria-busy");
    this.known.open(store);
    const places = { chart: FULL, "small-chart": SMALL };
    for (const id of Object.keys(places)) byId(id).replaceChildren();
    this.charts = model.card?.curve?.length
      ? Object.entries(places).map(([id, frame]) => new Chart(model.card, byId(id), frame))
      : [];
    this.#introduce();
    this.#wellKnown().catch(onFail); // so that the first rating need not wait for it
    this.#choose(store.state.threshold);
    this.#showWho();
    if (model.can_fold_in) this.shelf.open(store, this.scores, (ratings) => this.#within({ ratings }).ratings);
    await this.resume();
  }

  /** The service is back: ask for what could not be had. */
  async resume() {
    await Promise.all([this.model.can_fold_in ? this.shelf.fillUp() : null, this.known.show(), this.refresh()]);
  }

  /** Look whether another model is served by now; if so, change over to it, with the ratings that it can use. */
  async checkModel() {
    const model = await get("api/model");
    if (isSame(model, this.model)) return false;
    const { ratings } = this.store;
    const usable = await this.#usable(model, ratings);
    if (isSame(model, this.model)) return true; // another check was faster
    let store = this.store;
    if (model.data?.digest !== this.model.data?.digest) {
      const { who, threshold, view } = store.state;
      store = this.#makeStore(model);
      store.set({ who, threshold, view });
      for (const film of usable) if (!store.ratingOf(film.item)) store.rate(film, film.rating);
    }
    const lost = ratings.filter((film) => !store.ratingOf(film.item)).length;
    await this.open(model, store);
    connection.tell(sayNewModel(ratings.length, lost));
    return true;
  }

  /** Whether a refusal comes of another model, which is shown then. */
  async #comesOfNewModel(error) {
    return error instanceof Refused && (error.status === 404 || error.status === 422) && this.checkModel();
  }

  /** The ratings that mean the same to another model: its scale has the score and ends as high, and the item is the same. */
  async #usable(model, ratings) {
    const sameTop = model.scores.at(-1) === this.scores.at(-1);
    const kept = ratings.filter((film) => sameTop && model.scores.includes(film.rating));
    if (kept.length === 0 || !model.can_fold_in) return [];
    const items = kept.map((film) => film.item);
    const asked = within(model.limits, { ratings: kept.map(({ item, rating }) => ({ item, rating })), n: 1, items });
    try {
      const { forecasts } = await post("api/fold-in", asked);
      const titles = new Map(forecasts.filter(({ known }) => known).map(({ item, title }) => [item, title]));
      return kept.filter((film) => titles.get(film.item) === film.title);
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return []; // it knows none of the items
      throw error;
    }
  }

  #makeStore(model) {
    return new Store(model.data?.digest, model.scores, () => {
      if (this.model.can_fold_in) this.shelf.follow();
      if (this.store.state.who === "newcomer") this.refresh();
    });
  }

  /** Ask for forecasts anew; what is shown stays until the answer is there. */
  async refresh(said = "") {
    const start = performance.now();
    const { who, user, ratings } = this.store.state;
    byId("onward").hidden = who === "newcomer" ? ratings.length === 0 : user === null;
    if (who === "newcomer" ? ratings.length === 0 : user === null) return this.#showNothing();
    if (this.forecasts.size === 0) this.empty.wait();
    byId("films").setAttribute("aria-busy", "true");
    try {
      const answer = await this.ask((signal) => (who === "newcomer" ? this.#foldIn(signal) : this.#recommend(signal)));
      if (!sameScale(answer, this.model)) {
        if (await this.checkModel()) return;
        throw new Refused(503, "the model is being replaced"); // some of the workers have the new one already
      }
      this.#show(answer, said, start);
      connection.fine();
    } catch (error) {
      await this.#failed(error);
    }
  }

  async #failed(error) {
    try {
      if (await this.#comesOfNewModel(error)) return;
    } catch (other) {
      error = other;
    }
    if (error.name !== "AbortError") byId("films").removeAttribute("aria-busy");
    onFail(error);
  }

  #foldIn(signal) {
    const items = this.shelf.unrated().map((film) => film.item);
    return this.#list("api/fold-in", { ratings: this.#given(), items }, signal);
  }

  /** Forecast a film before it is rated, so that both can be compared then. */
  async #foresee({ item }) {
    if (this.store.ratings.length === 0 || this.store.ratingOf(item)) return;
    try {
      const asked = this.#within({ ratings: this.#given(), n: 1, items: [item] });
      const { forecasts, scores } = await post("api/fold-in", asked);
      if (!this.store.ratingOf(item) && sameScale({ scores }, this.model)) this.shelf.expect(forecasts);
    } catch (error) {
      await this.#failed(error);
    }
  }

  #within(question) {
    return within(this.model.limits, question);
  }

  #given() {
    return this.store.ratings.map(({ item, rating }) => ({ item, rating }));
  }

  #recommend(signal) {
    return this.#list("api/recommend", { user: this.store.state.user }, signal);
  }

  async #list(path, asked, signal) {
    const ask = (famous = {}) =>
      post(path, this.#within({ ...asked, ...famous, n: N, threshold: this.floor }), signal);
    if (this.store.state.view !== "famous") return ask();
    try {
      return await ask({ candidates: await this.#wellKnown() });
    } catch (error) {
      if (!(error instanceof Refused && (error.status === 404 || error.status === 422))) throw error;
      if (await this.checkModel()) throw new DOMException("another model is shown", "AbortError");
      this.famous = null;
      return ask({ candidates: await this.#wellKnown() });
    }
  }

  /** The items that are rated most; asked for once, and again if that failed or they are no longer known. */
  #wellKnown() {
    const ask = async () => (await get("api/items", { query: "", limit: FAMOUS })).items.map((film) => film.item);
    this.famous ??= ask().catch((error) => {
      this.famous = null;
      throw error;
    });
    return this.famous;
  }

  #show({ recommendations, forecasts = [] }, said, start) {
    byId("films").removeAttribute("aria-busy");
    this.shelf.expect(forecasts);
    this.forecasts.show(recommendations);
    this.forecasts.refreshOpen();
    this.#choose(this.store.state.threshold);
    byId("all").hidden = this.floor === 0;
    byId("view").hidden = false;
    if (recommendations.length > 0) this.empty.hide();
    else if (this.floor > 0) this.empty.say("Nothing is that sure", "Move the slider to the left, or show all again.");
    else this.empty.say("Nothing left to forecast", "All well-known films are rated already. Look among all films.");
    const first = recommendations[0];
    const lead = first
      ? ` First: ${sayTitle(first)}, ${number.format(first.prediction ?? first.mean)}, ${sureness(first.reliability)}, ${percent(first.reliability)}.`
      : "";
    announce(`${said} ${plural(recommendations.length, "forecast")}.${lead}`);
    const took = performance.measure("starcast-answer", { start, end: performance.now() }).duration;
    byId("timing").textContent = `${plural(recommendations.length, "forecast")} in ${Math.max(1, Math.round(took))} ms`;
  }

  #showNothing() {
    this.forecasts.show([]);
    byId("timing").textContent = "";
    byId("view").hidden = true;
    byId("all").hidden = true;
    this.floor = 0;
    if (this.store.state.who === "user")
      this.empty.example("Whose forecasts?", "Choose someone it knows, and their forecasts appear here.");
    else
      this.empty.example(
        "Your forecasts will appear here",
        "They come with your first rating and get surer with each one.",
      );
    this.#choose(this.store.state.threshold);
  }

  /** The slider: fade what is not sure enough, say what that costs and buys, move the point on the curve. */
  #choose(threshold) {
    const slider = byId("threshold");
    slider.value = threshold;
    slider.style.setProperty("--at", threshold);
    this.forecasts.fade(threshold);
    this.empty.fade(threshold);
    const wide = (text) => make("span", { class: "wide" }, text);
    const least = threshold === 0 ? [wide("Say anything")] : [wide("At least "), percent(threshold), wide(" sure")];
    byId("threshold-words").replaceChildren(...least);
    const sentence = this.#sentence(threshold);
    slider.setAttribute("aria-valuetext", `${percent(threshold)}. ${sentence}`);
    const { size, standing } = this.forecasts;
    byId("standing").textContent =
      size === 0 ? "" : standing === size ? `all ${size} are sure enough` : `${standing} of ${size} are sure enough`;
    byId("surer").hidden = size === 0 || standing === size;
  }

  #sentence(threshold) {
    const { card } = this.model;
    if (this.charts.length === 0) return (byId("sentence").textContent = "This model comes without a curve.");
    const [point, whole] = [at(card.curve, threshold), at(card.curve, 0)];
    for (const chart of this.charts) chart.choose(point);
    byId("sentence").replaceChildren(
      ...saySentence(point, card.n).map((part, place) => (place % 2 ? make("b", {}, part) : part)),
    );
    const off = (step) => number.format(step.mae);
    const silent = isThin(point, card.n) || point.mae === null;
    byId("bargain").textContent = silent
      ? ""
      : threshold === 0
        ? `Right means exactly right. On average it is off by ${off(point)} ${unit(this.scores)}.`
        : `Without your line: right ${percent(whole.accuracy)} of the time, off by ${off(whole)} ${unit(this.scores)} on average instead of ${off(point)}.`;
    return byId("sentence").textContent;
  }

  async #tellWhy(film, panel) {
    const { who, user } = this.store.state;
    const whose = who === "user" ? "they" : "you";
    const asked = who === "user" ? { user } : { ratings: this.#given() };
    if (!this.model.can_explain)
      return showNoWhy(panel, film, this.scores, "This model cannot say which ratings moved it.");
    if (!panel.hasChildNodes()) showWaiting(panel, whose);
    const mine = Symbol("the latest question of this panel");
    this.asked.set(panel, mine);
    try {
      const { reasons } = await post("api/explain", this.#within({ ...asked, item: film.item, n: 5 }));
      if (this.asked.get(panel) === mine) showWhy(panel, film, reasons, this.scores, whose);
    } catch (error) {
      if (this.asked.get(panel) !== mine) return;
      showNoWhy(panel, film, this.scores, "The reasons could not be fetched.");
      await this.#failed(error);
    }
  }

  #wire() {
    new Combobox(byId("film-search"), {
      noun: "film",
      search: async (query, signal) => {
        const { items, total } = await get("api/items", { query, limit: 20 }, signal);
        return { found: items, total };
      },
      say: (film) => [sayTitle(film), film.year ? String(film.year) : ""],
      pick: (film) => this.shelf.bring(film),
      failed: onFail,
    });
    byId("threshold").addEventListener("input", (event) => {
      this.store.set({ threshold: Number(event.target.value) });
      this.#choose(this.store.state.threshold);
    });
    byId("threshold").addEventListener("change", () =>
      announce(`${byId("sentence").textContent} ${byId("standing").textContent}.`),
    );
    byId("surer").addEventListener("click", () => this.#setFloor(this.store.state.threshold));
    byId("all").addEventListener("click", () => this.#setFloor(0));
    byId("clear").addEventListener("click", () => this.#clear());
    byId("view").addEventListener("change", (event) => {
      this.store.set({ view: event.target.value });
      this.#startOver();
    });
    byId("who").addEventListener("change", (event) => {
      this.store.set({ who: event.target.value });
      this.#showWho();
      this.#startOver();
    });
  }

  #setFloor(floor) {
    this.floor = floor;
    byId("results-title").scrollIntoView({ block: "nearest" });
    return this.refresh();
  }

  async #clear() {
    this.store.clear();
    byId("film-search").focus();
    this.shelf.open(this.store, this.scores, this.shelf.taken);
    await Promise.all([this.shelf.fillUp(), this.#startOver()]);
    announce("Your ratings are cleared.");
  }

  #startOver() {
    this.floor = 0;
    this.forecasts.show([]);
    return this.refresh();
  }

  #showWho() {
    if (!this.model.can_fold_in) this.store.set({ who: "user" });
    const { who } = this.store.state;
    for (const choice of byId("who").querySelectorAll("input")) {
      choice.checked = choice.value === who;
      choice.disabled = choice.value === "newcomer" && !this.model.can_fold_in;
    }
    for (const choice of byId("view").querySelectorAll("input"))
      choice.checked = choice.value === this.store.state.view;
    byId("newcomer").hidden = who !== "newcomer";
    byId("known").hidden = who !== "user";
    byId("you-words").textContent = who === "newcomer" ? "Rate five films" : "Choose someone";
    byId("results-words").textContent = who === "newcomer" ? "What it forecasts for you" : "What it forecasts for them";
  }

  #introduce() {
    const { model, data, card, calibrated, version } = this.model;
    const ratings = `${plural(data.ratings, "rating")} of ${plural(data.items, "film")} by ${plural(data.users, "user")}`;
    byId("facts").textContent =
      `${model}${calibrated ? ", calibrated" : ""}, learnt from ${ratings}${data.name ? ` (${data.name})` : ""}. Starcast ${version}.`;
    byId("source").textContent = !card?.curve?.length
      ? ""
      : card.source === "held-out ratings"
        ? `Measured on ${count.format(card.n)} held-out ratings of all kinds, which it had not seen.`
        : `By the model’s own forecasts of ${plural(card.n, "pair")}, not checked against held-out ratings.`;
  }
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const sameScale = (one, other) => String(one.scores) === String(other.scores);

function sayNewModel(rated, lost) {
  if (rated === 0) return "A new model is served.";
  if (lost === 0) return "A new model is served. Your ratings are kept.";
  return `A new model is served. Its scale or its films differ: it cannot use ${count.format(lost)} of your ${plural(rated, "rating")}.`;
}

let page = null;
const connection = new Connection(() => (page ? recheck() : start()));
const onFail = (error) => connection.failed(error);

async function start() {
  try {
    const model = await get("api/model");
    connection.fine();
    page = new Page();
    await page.open(model);
  } catch (error) {
    return onFail(error);
  }
  document.documentElement.dataset.ready = "";
}

/** After an outage, and for who comes back to the page: the service may have another model by now. */
async function recheck() {
  try {
    if (!(await page.checkModel())) await page.resume();
  } catch (error) {
    onFail(error);
  }
}

document.addEventListener("visibilitychange", () => {
  if (page && !document.hidden) page.checkModel().catch(onFail);
});

start();
