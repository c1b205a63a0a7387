// What this browser remembers, a drawer for each data set: who you are, your ratings, the threshold.

const EMPTY = { who: "newcomer", ratings: [], user: null, threshold: 0, view: "famous" };

export class Store {
  constructor(digest, scores) {
    this.key = `starcast/ratings/${digest ?? "unnamed"}`;
    this.state = { ...EMPTY, ratings: [], ...sound(read(this.key), scores) };
  }

  get ratings() {
    return this.state.ratings;
  }

  ratingOf(item) {
    return this.state.ratings.find((film) => film.item === item);
  }

  rate(film, rating, before) {
    const known = this.ratingOf(film.item);
    if (known) known.rating = rating;
    else {
      const { item, title, year } = film;
      this.state.ratings.push({ item, title, year, rating, before: before ?? null });
    }
    this.keep();
  }

  unrate(item) {
    this.state.ratings = this.state.ratings.filter((film) => film.item !== item);
    this.keep();
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.keep();
  }

  clear() {
    this.state = { ...EMPTY, ratings: [], threshold: this.state.threshold, view: this.state.view };
    this.keep();
  }

  keep() {
    try {
      localStorage.setItem(this.key, JSON.stringify(this.state));
    } catch {
      // Storage is full or barred: the page works on, it only forgets when it is closed.
    }
  }
}

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

/** What is left of a stored state when everything that this model cannot mean is dropped. */
function sound(state, scores) {
  if (state === null || typeof state !== "object") return {};
  const kept = {};
  if (state.who === "user" || state.who === "newcomer") kept.who = state.who;
  if (state.view === "all" || state.view === "famous") kept.view = state.view;
  if (["string", "number"].includes(typeof state.user)) kept.user = state.user;
  if (state.threshold >= 0 && state.threshold <= 1) kept.threshold = Number(state.threshold);
  if (Array.isArray(state.ratings)) {
    kept.ratings = state.ratings.filter((film) => film && film.item !== undefined && scores.includes(film.rating));
  }
  return kept;
}
