// Why a forecast is what it is: the chance of every score, and which ratings moved it.

import { make } from "./dom.js";
import { number, percent, sayScore, sayTitle, unit } from "./text.js";

const LEVEL = 0.005; // stars; less is said to be none
const SLIGHT = 0.03; // stars; less is nothing to be told as the reason

export function showWaiting(panel, whose) {
  const theirs = whose === "you" ? "your" : "their";
  panel.replaceChildren(make("p", { class: "small" }, `Leaving out ${theirs} ratings in turn…`));
}

export function showWhy(panel, forecast, found, scores, whose) {
  const reasons = found.toSorted((one, other) => Math.abs(other.shift) - Math.abs(one.shift));
  const reasonsPart = make(
    "div",
    { class: "reasons" },
    make("h4", {}, `What moved it`),
    make("p", {}, lead(reasons, scores, whose)),
  );
  if (reasons.length > 0) reasonsPart.append(ledger(reasons, scores, whose));
  panel.replaceChildren(chances(forecast, scores), reasonsPart);
}

export function showNoWhy(panel, forecast, scores, message) {
  panel.replaceChildren(chances(forecast, scores), make("div", { class: "reasons" }, make("p", {}, message)));
}

function chances(forecast, scores) {
  const list = make("ul", { class: "chances" });
  const top = forecast.probs.indexOf(Math.max(...forecast.probs));
  for (let place = scores.length - 1; place >= 0; place--) {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--p", forecast.probs[place]);
    list.append(
      make(
        "li",
        place === top ? { class: "top" } : {},
        make("span", {}, sayScore(scores[place], scores)),
        bar,
        make("span", { class: "figure" }, percent(forecast.probs[place])),
      ),
    );
  }
  const mean = make("p", { class: "small" }, `${number.format(forecast.mean)} ${unit(scores)} on average`);
  return make("div", {}, make("h4", {}, "The whole forecast"), list, mean);
}

function lead(reasons, scores, whose) {
  const first = reasons[0];
  if (!first || Math.abs(first.shift) < LEVEL) return "No single rating moved it: this is what most people would give.";
  if (Math.abs(first.shift) < SLIGHT)
    return `It rests on many ratings together: none moved it by more than ${number.format(Math.max(...reasons.map((reason) => Math.abs(reason.shift))))} ${unit(scores)}.`;
  const way = first.shift > 0 ? "lower" : "higher";
  const change = `${number.format(Math.abs(first.shift))} ${unit(scores, Math.abs(first.shift))} ${way}`;
  return `Had ${whose} not rated ${sayTitle(first)}, the forecast would be ${change}.`;
}

function ledger(reasons, scores, whose) {
  const most = Math.max(...reasons.map((reason) => Math.abs(reason.shift)), 0.02);
  const list = make("ul", { class: "ledger" });
  for (const reason of reasons) {
    const level = Math.abs(reason.shift) < LEVEL;
    const way = level ? "level" : reason.shift > 0 ? "up" : "down";
    const bar = make("i", { class: way, "aria-hidden": "true" });
    bar.style.setProperty("--p", Math.abs(reason.shift) / most);
    const sign = level ? "±0" : `${reason.shift > 0 ? "+" : "−"}${number.format(Math.abs(reason.shift))}`;
    const gave = `${whose} gave ${number.format(reason.rating)}`;
    list.append(
      make(
        "li",
        {},
        make("span", { class: "cause" }, sayTitle(reason), make("small", {}, gave)),
        make("span", { class: "track" }, bar),
        make("span", { class: `figure ${way}` }, sign, make("span", { class: "unseen" }, ` ${unit(scores)}`)),
      ),
    );
  }
  return list;
}
