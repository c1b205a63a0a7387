// One control for one rating: stars, numbered chips where there are many scores, a list where there are very many.

import { make, star } from "./dom.js";
import { number, sayScore, sayTitle } from "./text.js";

let made = 0;

/** A control with real radio buttons (or a select); onRate(score) on every choice. */
export function ratingControl(film, scores, rating, onRate) {
  const name = `rating-${++made}`;
  const question = `Your rating of ${sayTitle(film)}`;
  if (scores.length > 12) return menu(question, scores, rating, onRate);
  const kind = kindOf(scores);
  const group = make("fieldset", { class: kind }, make("legend", { class: "unseen" }, question));
  for (const score of scores) {
    const button = make("input", {
      type: "radio",
      name,
      value: score,
      checked: score === rating,
      "aria-label": sayScore(score, scores),
    });
    const label = make("label", { title: sayScore(score, scores) }, button);
    if (kind === "stars") label.append(star());
    else label.append(make("span", { "aria-hidden": "true" }, number.format(score)));
    if (kind === "chips halves") label.append(star(Number.isInteger(score) ? "right" : "left"));
    group.append(label);
  }
  group.addEventListener("change", (event) => onRate(Number(event.target.value)));
  return group;
}

/** Whole stars, chips with numbers, or chips that a pointer which is fine enough sees as halves of stars. */
function kindOf(scores) {
  const steps = scores.every((score, place) => score === (place + 1) / 2);
  if (steps && scores.length % 2 === 0) return "chips halves";
  return scores[0] > 0 && scores.length <= 6 ? "stars" : "chips";
}

function menu(question, scores, rating, onRate) {
  const select = make("select", { class: "menu", "aria-label": question }, make("option", { value: "" }, "Rate it"));
  for (const score of scores) {
    select.append(make("option", { value: score, selected: score === rating }, number.format(score)));
  }
  select.addEventListener("change", () => select.value !== "" && onRate(Number(select.value)));
  return select;
}

/** Show a rating, or none. */
export function setControl(control, rating) {
  for (const button of control.querySelectorAll("input")) button.checked = Number(button.value) === rating;
  if (control.tagName === "SELECT") control.value = rating ?? "";
}

/** Put the focus where the next key rates. */
export function focusControl(control) {
  (control.querySelector("input:checked") ?? control.querySelector("input") ?? control).focus();
}
