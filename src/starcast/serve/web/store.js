// What this browser remembers, a record for each data set: who you are, your ratings, the threshold.

const EMPTY = { who: "newcomer", user: null, threshold: 0, view: "famous", cleared: -1 };

export class Store {
  /**
   * onChange() when another tab has changed the ratings. Every rating and every removal has the time of its change;
   * of two tabs, the later change of an item counts.
   */
  constructor(digest, scores, onChange) {
    this.scores = scores;
    this.key = `starcast/ratings/${digest ?? "unnamed"}`;
    this.state = { ...EMPTY, ratings: [], removed: [], ...sound(read(this.key), scores) };
    this.listen = (event) => {
      if (event.key !== this.key || event.newValue === null) return;
      const { received, ahead } = this.#merge(parse(event.newValue));
      if (ahead) this.#write(); // the other tab wrote before it knew of this one's changes
      if (received) onChange();
    };
    addEventListener("storage", this.listen);
  }

  /** Take no more notice of other tabs: another store takes over. */
  close() {
    removeEventListener("storage", this.listen);
  }

  get ratings() {
    return this.state.ratings;
  }

  ratingOf(item) {
    return this.state.ratings.find((film) => film.item === item);
  }

  rate(film, rating, before) {
    const known = this.ratingOf(film.item);
    const at = this.#now();
    if (known) Object.assign(known, { rating, at });
    else {
      const { item, title, year } = film;
      this.state.removed = this.state.removed.filter((other) => other.item !== item);
      this.state.ratings.push({ item, title, year, rating, before: before ?? null, at });
    }
    this.keep();
  }

  unrate(item) {
    const at = this.#now();
    this.state.ratings = this.state.ratings.filter((film) => film.item !== item);
    this.state.removed.push({ item, at });
    this.keep();
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.keep();
  }

  /** One time stands for all removals, so that nothing in the storage tells what had been rated. */
  clear() {
    const { threshold, view } = this.state;
    this.state = { ...EMPTY, ratings: [], removed: [], threshold, view, cleared: this.#now() };
    this.keep();
  }

  keep() {
    this.#merge(read(this.key));
    this.#write();
  }

  #write() {
    try {
      localStorage.setItem(this.key, JSON.stringify(this.state));
    } catch {
      // Storage is full or barred: the page works on, it only forgets when it is closed.
    }
  }

  /** Take over what another tab changed later; tell whether there was any, and whether this one has later changes. */
  #merge(found) {
    const mine = this.state;
    const theirs = { cleared: -1, ratings: [], removed: [], ...sound(found, this.scores) };
    const cleared = Math.max(mine.cleared, theirs.cleared);
    const latest = new Map();
    const add = (entry) => {
      if (entry.at > cleared && !(latest.get(entry.item)?.at >= entry.at)) latest.set(entry.item, entry);
    };
    [...mine.ratings, ...mine.removed, ...theirs.ratings, ...theirs.removed].forEach(add);
    const entries = [...latest.values()];
    const ratings = entries.filter((entry) => "rating" in entry);
    const removed = entries.filter((entry) => !("rating" in entry));
    this.state = { ...mine, cleared, ratings, removed };
    return { received: !same(mine.ratings, ratings), ahead: cleared > theirs.cleared || !same(theirs.ratings, ratings) };
  }

  /** The time, later than any change so far, whatever the clock does. */
  #now() {
    const { cleared, ratings, removed } = this.state;
    return Math.max(Date.now(), 1 + Math.max(cleared, ...[...ratings, ...removed].map((entry) => entry.at)));
  }
}

/** Whether two lists hold the same changes, in whatever order. */
function same(one, other) {
  const times = new Map(one.map(({ item, at }) => [item, at]));
  return one.length === other.length && other.every(({ item, at }) => times.get(item) === at);
}

function read(key) {
  try {
    return parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
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
  if (Number.isFinite(state.cleared)) kept.cleared = state.cleared;
  const timed = (entries) =>
    entries
      .filter((entry) => entry && entry.item !== undefined)
      .map((entry) => ({ ...entry, at: Number.isFinite(entry.at) ? entry.at : 0 }));
  if (Array.isArray(state.ratings)) kept.ratings = timed(state.ratings).filter((film) => scores.includes(film.rating));
  if (Array.isArray(state.removed)) kept.removed = timed(state.removed).map(({ item, at }) => ({ item, at }));
  return kept;
}
