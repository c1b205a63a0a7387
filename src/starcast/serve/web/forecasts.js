// The list of recommendations: a row each, that fades where it is not sure enough and unfolds to say why.

import { byId, calm, draw, make, star } from "./dom.js";
import { likeliest, number, percent, sayScore, sayTitle, sureness } from "./text.js";

const APPEAR = { duration: 240, easing: "ease-out" };
const MOVE = { duration: 320, easing: "cubic-bezier(.2,.7,.2,1)" };

export class Forecasts {
  /** onOpen(film, panel) fills the panel that tells why. */
  constructor({ onOpen }) {
    this.onOpen = onOpen;
    this.rows = new Map();
    this.threshold = 0;
    this.list = byId("films");
    this.rug = byId("rug");
  }

  get size() {
    return this.rows.size;
  }

  /** How many are sure enough. */
  get standing() {
    return [...this.rows.values()].filter((row) => row.forecast.reliability >= this.threshold).length;
  }

  /** Show these, to be faded next; rows that stay glide to their new places, and their bars to their new heights. */
  show(forecasts) {
    const before = new Map([...this.rows].map(([item, row]) => [item, row.element.getBoundingClientRect().top]));
    const kept = new Map();
    forecasts.forEach((forecast, place) => {
      const row = this.rows.get(forecast.item) ?? this.#row(forecast, place);
      kept.set(forecast.item, row);
      if (this.list.children[place] !== row.element)
        this.list.insertBefore(row.element, this.list.children[place] ?? null);
      this.#update(row, forecast, place + 1);
    });
    for (const [item, row] of this.rows) if (!kept.has(item)) row.element.remove();
    this.rows = kept;
    this.#glide(before);
    this.#dots();
  }

  /** Silence those below the threshold. */
  fade(threshold) {
    this.threshold = threshold;
    for (const row of this.rows.values()) {
      const silent = row.forecast.reliability < threshold;
      row.element.classList.toggle("silent", silent);
      row.bars.style.setProperty("--line", threshold);
      row.dot.classList.toggle("silent", silent);
      this.#verdict(row, silent);
    }
  }

  /** Fold up what is open: it told of other ratings. */
  foldAll() {
    for (const row of this.rows.values()) if (!row.panel.hidden) this.#toggle(row, false);
  }

  /** Ask anew for the reasons of what is open. */
  refreshOpen() {
    for (const row of this.rows.values()) if (!row.panel.hidden) this.onOpen(row.forecast, row.panel);
  }

  #row(forecast, place) {
    const id = `why-${String(forecast.item).replace(/[^\w-]/g, "_")}-${place}-${Math.random().toString(36).slice(2, 8)}`;
    const button = make(
      "button",
      { type: "button", "aria-expanded": "false", "aria-controls": id },
      sayTitle(forecast),
    );
    const rank = make("span", { class: "rank", "aria-hidden": "true" });
    const year = make("p", { class: "year small" }, forecast.year ? String(forecast.year) : "");
    const bars = make("div", { class: this.scores.length > 6 ? "bars many" : "bars", role: "img" });
    for (const score of this.scores)
      bars.append(
        make("span", { class: "bar" }, make("i"), make("small", { "aria-hidden": "true" }, number.format(score))),
      );
    const verdict = make("p", { class: "verdict" });
    const panel = make("div", {
      class: "why",
      id,
      role: "region",
      "aria-label": `Why: ${sayTitle(forecast)}`,
      hidden: true,
    });
    const chevron = draw(
      "svg",
      { viewBox: "0 0 20 20", class: "chevron", "aria-hidden": "true" },
      draw("path", { d: "M6 8l4 4 4-4", class: "stroke" }),
    );
    const face = make(
      "div",
      { class: "face" },
      rank,
      make("div", { class: "name" }, make("h3", {}, button), year),
      bars,
      verdict,
      chevron,
    );
    const row = {
      forecast,
      button,
      rank,
      bars,
      verdict,
      panel,
      dot: make("i"),
      element: make("li", { class: "film" }, face, panel),
    };
    button.addEventListener("click", () => this.#toggle(row, panel.hidden));
    return row;
  }

  #update(row, forecast, rank) {
    row.forecast = forecast;
    row.rank.textContent = rank;
    const top = forecast.probs.indexOf(Math.max(...forecast.probs));
    [...row.bars.children].forEach((bar, place) => {
      bar.style.setProperty("--p", forecast.probs[place]);
      bar.classList.toggle("top", place === top);
    });
    const said = forecast.probs.map((p, place) => `${sayScore(this.scores[place], this.scores)} ${percent(p)}`);
    row.bars.setAttribute("aria-label", `Chances: ${said.join(", ")}`);
  }

  #verdict(row, silent) {
    const { forecast, verdict } = row;
    if (row.told?.forecast === forecast && row.told.silent === silent) return;
    row.told = { forecast, silent };
    const words = silent ? "stays silent" : sureness(forecast.reliability);
    const score = likeliest(forecast.probs, this.scores);
    const told = silent
      ? make("b", { "aria-hidden": "true" }, "–")
      : make(
          "b",
          {},
          number.format(score),
          make("span", { class: "unseen" }, ` ${sayScore(score, this.scores).split("\u00a0")[1]}, `),
          star(),
        );
    verdict.replaceChildren(told, make("span", {}, `${words} · ${percent(forecast.reliability)}`));
  }

  #toggle(row, open) {
    row.panel.hidden = !open;
    row.button.setAttribute("aria-expanded", String(open));
    row.element.classList.toggle("open", open);
    if (open) this.onOpen(row.forecast, row.panel);
  }

  #dots() {
    this.rug.replaceChildren(
      ...[...this.rows.values()].map((row) => {
        row.dot.style.setProperty("--at", row.forecast.reliability);
        return row.dot;
      }),
    );
  }

  /** All places are read before anything is set in motion, or each would be laid out anew. */
  #glide(before) {
    if (calm()) return;
    const moves = [...this.rows].map(([item, { element }]) => {
      const from = before.get(item);
      return [element, from === undefined ? null : from - element.getBoundingClientRect().top];
    });
    for (const [element, move] of moves) {
      if (move === null) element.animate([{ opacity: 0 }, { opacity: 1 }], APPEAR);
      else if (Math.abs(move) > 1)
        element.animate([{ transform: `translateY(${move}px)` }, { transform: "none" }], MOVE);
    }
  }
}
