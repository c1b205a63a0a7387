// The films to rate: those found by search and those rated stay where they are, popular ones fill up the rest.

import { get } from "./api.js";
import { announce, byId, draw, make } from "./dom.js";
import { focusControl, ratingControl, setControl } from "./rating.js";
import { count, likeliest, number, percent, sayScore, sayTitle } from "./text.js";

const OFFERED = 6;
const GOAL = 5;
const PAGE = 60;

export class Shelf {
  /** onChange() after every rating, onBring(film) when one comes by search, onFail(error) when none can be offered. */
  constructor({ onChange, onBring, onFail }) {
    Object.assign(this, { onChange, onBring, onFail });
    this.rows = new Map();
    this.forecasts = new Map(); // what was forecast for films on the shelf before they were rated
    this.popular = [];
    this.passed = new Set();
    this.offset = 0;
    this.list = byId("shelf");
    byId("pips").append(...Array.from({ length: GOAL }, () => make("li")));
    byId("more-films").addEventListener("click", () => this.offerOthers());
  }

  /** Begin with the ratings of a store; what was there belongs to another one. `taken(ratings)` are sent. */
  open(store, scores, taken) {
    Object.assign(this, { store, scores, taken });
    Object.assign(this, { popular: [], offset: 0 });
    for (const item of [...this.rows.keys()]) this.#drop(item);
    for (const film of store.ratings) this.#put(film);
    this.forecasts.clear();
    this.passed.clear();
    this.tell();
  }

  /** Show what the store has by now: another tab has changed it. */
  follow() {
    for (const { film, control } of this.rows.values()) setControl(control, this.store.ratingOf(film.item)?.rating);
    for (const film of this.store.ratings) if (!this.rows.has(film.item)) this.#put(film);
    this.tell();
  }

  /** The films on the shelf without a rating: those whose forecast is worth knowing beforehand. */
  unrated() {
    return [...this.rows.values()].map((row) => row.film).filter((film) => !this.store.ratingOf(film.item));
  }

  /** A film that was searched for comes to the top, ready to be rated. */
  bring(film) {
    this.passed.delete(film.item);
    const row = this.rows.get(film.item) ?? this.#put(film);
    this.list.prepend(row.element);
    row.element.classList.add("brought");
    row.element.scrollIntoView({ block: "nearest" });
    focusControl(row.control);
    this.onBring(film);
  }

  async offerOthers() {
    for (const film of this.unrated()) {
      this.passed.add(film.item);
      this.#drop(film.item);
    }
    await this.fillUp();
    announce("Other films are shown.");
  }

  /** Keep what was forecast for films on the shelf, to be compared with what will be said. */
  expect(forecasts) {
    for (const forecast of forecasts) {
      const { item, known, probs, reliability } = forecast;
      if (known) this.forecasts.set(item, { prediction: likeliest(probs, this.scores), reliability });
    }
  }

  tell() {
    const rated = this.store.ratings.length;
    const taken = this.taken(this.store.ratings).length;
    [...byId("pips").children].forEach((pip, place) => pip.classList.toggle("full", place < rated));
    const left = GOAL - rated;
    byId("progress-words").textContent =
      rated === 0
        ? "None rated yet"
        : rated > taken
          ? `${count.format(rated)} rated. The last ${count.format(taken)} count`
          : left > 0
            ? `${rated} rated, ${left} to go`
            : `${count.format(rated)} rated. More helps`;
    byId("clear").hidden = rated === 0;
    this.#tally();
    for (const row of this.rows.values()) this.#describe(row);
  }

  #tally() {
    const told = this.store.ratings.filter((film) => film.before);
    const right = told.filter((film) => film.before.prediction === film.rating).length;
    byId("tally").hidden = told.length < 2;
    byId("tally").textContent = `Before you rated them, it had ${right} of ${told.length} right.`;
  }

  #put(film) {
    const rated = this.store.ratingOf(film.item);
    const control = ratingControl(film, this.scores, rated?.rating, (rating) => this.#rate(film, rating));
    const under = make("p", { class: "under small" });
    const remove = make(
      "button",
      { type: "button", class: "icon remove", "aria-label": `Take back the rating of ${sayTitle(film)}` },
      cross(),
    );
    const title = make("p", { class: "title" }, sayTitle(film), film.year ? make("small", {}, ` ${film.year}`) : null);
    const element = make("li", { class: "to-rate" }, title, control, under, remove);
    remove.addEventListener("click", () => this.#unrate(film));
    const row = { film, element, control, under, remove };
    this.rows.set(film.item, row);
    this.list.append(element);
    this.#describe(row);
    return row;
  }

  #describe({ film, element, under, remove }) {
    const rated = this.store.ratingOf(film.item);
    element.classList.toggle("rated", Boolean(rated));
    remove.hidden = !rated;
    const before = rated?.before;
    under.textContent = before ? `it said ${number.format(before.prediction)} · ${percent(before.reliability)}` : "";
    under.classList.toggle("hit", Boolean(before) && before.prediction === rated.rating);
  }

  #drop(item) {
    this.rows.get(item)?.element.remove();
    this.rows.delete(item);
  }

  #rate(film, rating) {
    const before = this.forecasts.get(film.item);
    this.store.rate(film, rating, before);
    this.tell();
    this.onChange(`${sayTitle(film)}: ${sayScore(rating, this.scores)}.`);
  }

  #unrate(film) {
    const row = this.rows.get(film.item);
    this.store.unrate(film.item);
    setControl(row.control, null);
    this.tell();
    focusControl(row.control);
    this.onChange(`The rating of ${sayTitle(film)} is taken back.`);
  }

  async fillUp() {
    let rounds = 0; // through the catalogue: in the second, siblings will do, or there might be no end
    try {
      while (this.unrated().length < OFFERED) {
        if (this.popular.length === 0) {
          if (!(await this.#fetchPopular())) break;
          if (this.offset === 0) rounds += 1;
        }
        const film = this.popular.shift();
        if (film && !this.rows.has(film.item) && !this.passed.has(film.item) && (rounds > 1 || !this.#hasSibling(film)))
          this.#put(film);
      }
    } catch (error) {
      this.onFail(error);
    }
    byId("more-films").disabled = this.rows.size === 0;
  }

  async #fetchPopular() {
    const { items, total } = await get("api/items", { query: "", limit: PAGE, offset: this.offset });
    this.offset += items.length;
    if (this.offset >= total || items.length === 0) this.offset = 0; // round again: what was passed over may come back
    if (this.offset === 0) this.passed.clear();
    this.popular = items;
    return items.length > 0 && items.some((film) => !this.rows.has(film.item));
  }

  /** One film of a series is enough to offer: "Star Wars: …" once. */
  #hasSibling(film) {
    const start = (other) => sayTitle(other).toLowerCase().split(/\s+/).slice(0, 2).join(" ");
    return this.popular.length > 0 && this.unrated().some((other) => start(other) === start(film));
  }
}

function cross() {
  return draw(
    "svg",
    { viewBox: "0 0 20 20", "aria-hidden": "true" },
    draw("path", { d: "M5.5 5.5l9 9m0-9l-9 9", class: "stroke" }),
  );
}
