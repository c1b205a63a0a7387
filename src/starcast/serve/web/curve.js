// The error-coverage curve of the model's card, and the point on it that the slider chooses.

import { byId, draw } from "./dom.js";
import { isThin, percent } from "./text.js";

const WIDTH = 320;
const HEIGHT = 194;
const LEFT = 40;
const RIGHT = 12;
const TOP = 24;
const BOTTOM = 38;

/** What the card says of a threshold; between two of its steps, on the straight line. */
export function at(curve, threshold) {
  const after = curve.findIndex((step) => step.threshold >= threshold - 1e-9);
  if (after === -1) return { ...curve[curve.length - 1], threshold };
  if (after === 0 || Math.abs(curve[after].threshold - threshold) < 1e-9) return curve[after];
  const [low, high] = [curve[after - 1], curve[after]];
  const share = (threshold - low.threshold) / (high.threshold - low.threshold);
  const between = (name) =>
    low[name] === null || high[name] === null ? null : low[name] + share * (high[name] - low[name]);
  return { threshold, coverage: between("coverage"), accuracy: between("accuracy"), mae: between("mae") };
}

export class Chart {
  constructor(card) {
    this.card = card;
    this.drawn = card.curve.filter((step) => !isThin(step, card.n));
    const worst = Math.max(0.1, ...this.drawn.map((step) => 1 - step.accuracy));
    this.top = Math.ceil(worst * 10 + 0.2) / 10;
    this.svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "chart" });
    this.#axes();
    this.#line();
    this.#chosen();
    byId("chart").replaceChildren(this.svg);
  }

  x = (coverage) => LEFT + coverage * (WIDTH - LEFT - RIGHT);
  y = (wrong) => TOP + (1 - wrong / this.top) * (HEIGHT - TOP - BOTTOM);

  #axes() {
    const floor = this.y(0);
    const step = this.top > 0.5 ? 0.2 : 0.1;
    for (let wrong = 0; wrong <= this.top + 1e-9; wrong += step) {
      this.svg.append(
        draw("line", {
          x1: LEFT,
          x2: WIDTH - RIGHT,
          y1: this.y(wrong),
          y2: this.y(wrong),
          class: wrong ? "grid" : "axis",
        }),
        draw("text", { x: LEFT - 7, y: this.y(wrong) + 3.5, class: "tick end" }, percent(wrong)),
      );
    }
    for (const [coverage, side] of [
      [0, "start"],
      [0.5, "middle"],
      [1, "end"],
    ]) {
      this.svg.append(draw("text", { x: this.x(coverage), y: floor + 15, class: `tick ${side}` }, percent(coverage)));
    }
    this.svg.append(
      draw("text", { x: this.x(0.5), y: HEIGHT - 6, class: "title middle" }, "forecasts it keeps"),
      draw("text", { x: 8, y: 10, class: "title start" }, "of those it keeps, wrong"),
    );
  }

  #line() {
    const points = this.drawn.map(
      (step) => `${this.x(step.coverage).toFixed(1)},${this.y(1 - step.accuracy).toFixed(1)}`,
    );
    if (points.length === 0) return;
    const [first, last] = [this.drawn[0], this.drawn[this.drawn.length - 1]];
    const floor = this.y(0).toFixed(1);
    const area = `M${this.x(first.coverage)},${floor}L${points.join("L")}L${this.x(last.coverage)},${floor}Z`;
    this.svg.append(
      draw("path", { d: area, class: "area" }),
      draw("path", { d: `M${points.join("L")}`, class: "line" }),
    );
  }

  #chosen() {
    this.drop = draw("line", { class: "cross" });
    this.across = draw("line", { class: "cross" });
    this.halo = draw("circle", { r: 10, class: "halo" });
    this.dot = draw("circle", { r: 5, class: "dot" });
    this.words = draw("text", { class: "chosen" });
    this.svg.append(this.drop, this.across, this.halo, this.dot, this.words);
  }

  /** Put the point where the curve says that this threshold is. */
  choose(point) {
    const hidden = isThin(point, this.card.n);
    for (const part of [this.drop, this.across, this.halo, this.dot, this.words]) part.classList.toggle("gone", hidden);
    const told = hidden ? "" : ` Chosen: ${percent(point.coverage)} kept, ${percent(1 - point.accuracy)} wrong.`;
    this.svg.setAttribute(
      "aria-label",
      `Error against coverage: the fewer forecasts it keeps, the fewer are wrong.${told}`,
    );
    if (hidden) return;
    const [x, y] = [this.x(point.coverage), this.y(1 - point.accuracy)];
    place(this.drop, { x1: x, x2: x, y1: y, y2: this.y(0) });
    place(this.across, { x1: LEFT, x2: x, y1: y, y2: y });
    place(this.halo, { cx: x, cy: y });
    place(this.dot, { cx: x, cy: y });
    const leftwards = x > WIDTH - 100;
    place(this.words, { x: leftwards ? x - 6 : x + 12, y: leftwards ? y - 13 : y + 14 });
    this.words.classList.toggle("end", leftwards);
    this.words.textContent = `${percent(1 - point.accuracy)} wrong`;
  }
}

function place(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value.toFixed(1));
}
