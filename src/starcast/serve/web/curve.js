// The error-coverage curve of the model's card, and the point on it that the slider chooses.

import { draw } from "./dom.js";
import { isThin, percent } from "./text.js";

/** With axes and words, where there is room. */
export const FULL = { width: 320, height: 194, left: 40, right: 12, top: 24, bottom: 38, words: true };
/** The line and the point alone, beside a slider on a phone. */
export const SMALL = { width: 132, height: 60, left: 8, right: 8, top: 8, bottom: 8, words: false };

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
  constructor(card, place, frame) {
    Object.assign(this, { card, frame });
    this.drawn = card.curve.filter((step) => !isThin(step, card.n));
    const worst = Math.max(0.1, ...this.drawn.map((step) => 1 - step.accuracy));
    this.worst = Math.ceil(worst * 10 + 0.2) / 10;
    const hidden = frame.words ? { role: "img" } : { "aria-hidden": "true" };
    this.svg = draw("svg", { viewBox: `0 0 ${frame.width} ${frame.height}`, class: "chart", ...hidden });
    this.#grid();
    if (frame.words) this.#words();
    this.#line();
    this.#chosen();
    place.replaceChildren(this.svg);
  }

  x(coverage) {
    const { width, left, right } = this.frame;
    return left + coverage * (width - left - right);
  }

  y(wrong) {
    const { height, top, bottom } = this.frame;
    return top + (1 - wrong / this.worst) * (height - top - bottom);
  }

  *#steps() {
    const step = this.worst > 0.5 ? 0.2 : 0.1;
    for (let wrong = 0; wrong <= this.worst + 1e-9; wrong += step) yield wrong;
  }

  #grid() {
    for (const wrong of this.frame.words ? this.#steps() : [0]) {
      const line = draw("line", { class: wrong ? "grid" : "axis" });
      place(line, { x1: this.x(0), x2: this.x(1), y1: this.y(wrong), y2: this.y(wrong) });
      this.svg.append(line);
    }
  }

  #words() {
    const { height, left } = this.frame;
    const write = (x, y, side, text) => this.svg.append(draw("text", { x, y, class: side }, text));
    for (const wrong of this.#steps()) write(left - 7, this.y(wrong) + 3.5, "end", percent(wrong));
    write(this.x(0), this.y(0) + 15, "start", percent(0));
    write(this.x(0.5), this.y(0) + 15, "middle", percent(0.5));
    write(this.x(1), this.y(0) + 15, "end", percent(1));
    write(this.x(0.5), height - 6, "middle", "forecasts it keeps");
    write(8, 10, "start", "of those it keeps, wrong");
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
    this.svg.append(this.drop, this.across, this.halo, this.dot);
    if (this.frame.words) this.svg.append(this.words);
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
    place(this.across, { x1: this.x(0), x2: x, y1: y, y2: y });
    place(this.halo, { cx: x, cy: y });
    place(this.dot, { cx: x, cy: y });
    const leftwards = x > this.frame.width - 100;
    place(this.words, { x: leftwards ? x - 6 : x + 12, y: leftwards ? y - 13 : y + 14 });
    this.words.classList.toggle("end", leftwards);
    this.words.textContent = `${percent(1 - point.accuracy)} wrong`;
  }
}

function place(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value.toFixed(1));
}
