// How things are said: titles, scores, shares, and how sure a forecast is.

const ARTICLE =
  /^(.+), (The|An?|Les|Las?|Los|Le|L'|Der|Die|Das|Des|Den|Det|Ein|Eine|El|Il|Lo|Gli|Un|Une|Una|O|Os|En)$/i;
const NBSP = "\u00a0";

/** "Matrix, The" as people say it: "The Matrix"; also within brackets. */
export function sayTitle(film) {
  const raw = film.title === null || film.title === undefined || film.title === "" ? String(film.item) : film.title;
  return raw.replace(/^[^(]+|\(([^)]*)\)/g, (part, inner) =>
    inner === undefined ? turn(part.trim()) + (part.endsWith(" ") ? " " : "") : `(${turn(inner)})`,
  );
}

function turn(text) {
  const found = ARTICLE.exec(text);
  return found ? found[2] + (found[2].endsWith("'") ? "" : " ") + found[1] : text;
}

/** A share as a whole percentage; the ends are only reached by what is exactly there. */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const whole = Math.round(share * 100);
  if (whole === 0 && share > 0) return `<${NBSP}1%`;
  if (whole === 100 && share < 1) return `>${NBSP}99%`;
  return `${whole}%`;
}

const LADDER = [
  [0.35, "a guess"],
  [0.45, "unsure"],
  [0.55, "leaning"],
  [0.7, "fairly sure"],
  [0.85, "sure"],
  [Infinity, "very sure"],
];

/** A reliability in words, so that 0.61 is "fairly sure". */
export function sureness(reliability) {
  return LADDER.find(([below]) => reliability < below)[1];
}

export const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
export const count = new Intl.NumberFormat("en");

/** What a step of the scale is called: stars up to five, points beyond. */
export function unit(scores, amount = 2) {
  const word = scores[0] >= 0 && scores[scores.length - 1] <= 5 ? "star" : "point";
  return Math.abs(amount) === 1 ? word : `${word}s`;
}

export function sayScore(score, scores) {
  return `${number.format(score)}${NBSP}${unit(scores, score)}`;
}

/** The cost and the gain of a threshold as one sentence in parts, of which every second is a figure. */
export function saySentence(point, pairs) {
  if (point.coverage === 0) return ["Keeps nothing: no forecast is that sure."];
  const kept = ["Keeps ", percent(point.coverage)];
  if (isThin(point, pairs)) return [...kept, " of forecasts, too few to tell how often they are right."];
  return [...kept, " of forecasts, right ", percent(point.accuracy), " of the time."];
}

/** Fewer than 30 ratings behind a point say little about how often it is right. */
export function isThin(point, pairs) {
  return point.accuracy === null || point.coverage * pairs < 30;
}

/** The score that a forecast bets on. */
export function likeliest(probs, scores) {
  return scores[probs.indexOf(Math.max(...probs))];
}

export function plural(n, one, many = `${one}s`) {
  return `${count.format(n)} ${n === 1 ? one : many}`;
}
