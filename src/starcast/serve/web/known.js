// Someone in the data: found by name, shown with what they liked best.

import { get } from "./api.js";
import { Combobox } from "./combobox.js";
import { byId, make, star } from "./dom.js";
import { number, plural, sayTitle } from "./text.js";

const SHOWN = 10;

export class Known {
  /** onChoose() when someone is chosen, onFail(error) when the service does not tell. */
  constructor({ onChoose, onFail }) {
    Object.assign(this, { onChoose, onFail });
    new Combobox(byId("user-search"), {
      noun: "user",
      search: async (query, signal) => {
        const { users, total } = await get("api/users", { query, limit: 20 }, signal);
        return { found: users, total };
      },
      say: ({ user, n_ratings: n }) => [`User ${user}`, plural(n, "rating")],
      pick: ({ user }) => this.choose(user),
      failed: onFail,
    });
    byId("anyone").addEventListener("click", () => this.#anyone());
  }

  open(store) {
    this.store = store;
    byId("their-ratings").replaceChildren();
  }

  choose(user) {
    this.store.set({ user });
    this.onChoose();
    return this.show();
  }

  async show() {
    const { user } = this.store.state;
    if (user === null) return;
    try {
      const { ratings } = await get("api/ratings", { user, limit: SHOWN });
      if (user === this.store.state.user) this.#draw(user, ratings);
    } catch (error) {
      this.onFail(error);
    }
  }

  #draw(user, ratings) {
    const rows = ratings.map((film) =>
      make(
        "li",
        {},
        make("span", { class: "title" }, sayTitle(film), film.year ? make("small", {}, String(film.year)) : null),
        make("b", {}, number.format(film.rating), star()),
      ),
    );
    byId("their-ratings").replaceChildren(
      make("h3", { class: "who" }, `User ${user}`),
      make("p", { class: "small" }, rows.length ? "liked best" : "has no ratings to show"),
      make("ul", { class: "liked" }, ...rows),
    );
  }

  async #anyone() {
    try {
      const { users } = await get("api/users", { query: "", limit: 100 });
      const others = users.slice(-50).filter(({ user }) => user !== this.store.state.user); // the busiest have rated everything
      if (others.length > 0) await this.choose(others[Math.floor(Math.random() * others.length)].user);
    } catch (error) {
      this.onFail(error);
    }
  }
}
