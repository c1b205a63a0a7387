// One control for one rating: stars, numbered chips where there are many scores, a list where there are very many.

import { make, star } from "./dom.js";
import { number, sayScore, sayTitle } from "./text.js";

let made = 0;

/** A control with real radio buttons (or a select); onRate(score) on every choice. */
export function ratingControl(film, scores, rating, onRate) {
  const name = `rating-${++made}`;
  const question = `Your rating of ${sayTitle(film)}`;
  if (scores.length > 12) return menu(question, scores, rating, onRate);
  const stars = scores[0] > 0 && scores.length <= 6;
  const group = make("fieldset", { class: stars ? "stars" : "chips" }, make("legend", { class: "unseen" }, question));
  for (const score of scores) {
    const button = make("input", {
      type: "radio",
      name,
      value: score,
      checked: score === rating,
      "aria-label": sayScore(score, scores),
    });
    const face = stars ? star() : make("span", { "aria-hidden": "true" }, number.format(score));
    group.append(make("label", { title: sayScore(score, scores) }, button, face));
  }
  group.addEventListener("change", (event) => onRate(Number(event.target.value)));
  return group;
}

function menu(question, scores, rating, onRate) {
  const select = make("select", { class: "menu", "aria-label": question }, make("option", { value: "" }, "Rate it"));
  for (const score of scores) {
    select.append(make("option", { value: score, selected: score === rating }, number.format(score)));
  }
  select.addEventListener("change", () => select.value !== "" && onRate(Number(select.value)));
  return select;
}

/** Show the control as not yet used. */
export function resetControl(control) {
  for (const button of control.querySelectorAll("input")) button.checked = false;
  if (control.tagName === "SELECT") control.value = "";
}

/** Put the focus where the next key rates. */
export function focusControl(control) {
  (control.querySelector("input:checked") ?? control.querySelector("input") ?? control).focus();
}
