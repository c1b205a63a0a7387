// What stands where the forecasts will be: an example that obeys the slider, or why there is nothing.

import { byId, make } from "./dom.js";
import { number } from "./text.js";

const EXAMPLE = 0.52; // chance of the likeliest score in the example

export class Empty {
  constructor() {
    this.place = byId("empty");
  }

  hide() {
    this.place.hidden = true;
  }

  /** Grey rows while the first answer is on its way. */
  wait() {
    this.#put(...Array.from({ length: 4 }, () => make("div", { class: "ghost", "aria-hidden": "true" })));
  }

  say(title, text) {
    this.#put(make("h3", {}, title), make("p", {}, text));
  }

  example(title, text) {
    const top = Math.max(0, this.scores.length - 2);
    const weights = this.scores.map((_, place) => (place === top ? 0 : 1 / (1 + (place - top) ** 2)));
    const rest = weights.reduce((sum, weight) => sum + weight, 0) || 1;
    this.bars = make("div", { class: "bars large", "aria-hidden": "true" });
    this.scores.forEach((score, place) => {
      const bar = make(
        "span",
        { class: place === top ? "bar top" : "bar" },
        make("i"),
        make("small", {}, number.format(score)),
      );
      bar.style.setProperty("--p", place === top ? EXAMPLE : ((1 - EXAMPLE) * weights[place]) / rest);
      this.bars.append(bar);
    });
    this.told = make("p", { class: "told" });
    const score = number.format(this.scores[top]);
    this.words = [`“I bet on ${score}, and I am 52% sure.”`, "“52% is below your line. I say nothing.”"];
    this.figure = make(
      "div",
      { class: "example" },
      this.bars,
      make("div", {}, make("p", { class: "small" }, "An example. Move the slider."), this.told),
    );
    this.#put(make("h3", {}, title), make("p", {}, text), this.figure);
    this.fade(this.threshold ?? 0);
  }

  fade(threshold) {
    this.threshold = threshold;
    if (!this.figure) return;
    const silent = EXAMPLE < threshold;
    this.bars.style.setProperty("--line", threshold);
    this.figure.classList.toggle("silent", silent);
    this.told.textContent = this.words[silent ? 1 : 0];
  }

  #put(...parts) {
    this.place.replaceChildren(...parts);
    this.place.hidden = false;
  }
}
