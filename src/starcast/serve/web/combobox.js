// A text field that offers what it finds: the ARIA combobox with a list, by keyboard, pointer and screen reader.

import { latest } from "./api.js";
import { announce, make } from "./dom.js";
import { plural } from "./text.js";

const PAUSE = 90; // ms between the last key and the question

/**
 * search(query, signal) answers { found, total }; say(entry) gives [text, detail]; pick(entry) takes the choice.
 */
export class Combobox {
  constructor(input, { search, say, pick, noun, failed }) {
    Object.assign(this, { input, search, say, pick, noun, failed });
    this.found = [];
    this.active = -1;
    this.stale = false; // whether what is listed answers an older text
    this.ask = latest();
    this.list = make("ul", {
      id: `${input.id}-list`,
      role: "listbox",
      class: "options",
      "aria-label": noun,
      hidden: true,
    });
    this.none = make("p", { class: "options none", hidden: true });
    input.after(this.list, this.none);
    const roles = {
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.list.id,
    };
    for (const [name, value] of Object.entries(roles)) input.setAttribute(name, value);
    this.#listen();
  }

  #listen() {
    this.input.addEventListener("input", () => {
      this.stale = true;
      this.#soon();
    });
    this.input.addEventListener("click", () => this.list.hidden && this.#look());
    this.input.addEventListener("keydown", (event) => this.#key(event));
    this.input.addEventListener("blur", () => this.close());
    // The pointer must not take the focus away before the click arrives.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.#take([...this.list.children].indexOf(option));
    });
  }

  #soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#look(), PAUSE);
  }

  async #look() {
    const query = this.input.value.trim();
    try {
      const { found, total } = await this.ask((signal) => this.search(query, signal));
      if (document.activeElement !== this.input) return;
      this.stale = query !== this.input.value.trim();
      this.#show(found);
      this.none.hidden = found.length > 0;
      this.none.textContent = `Nothing found for “${query}”. Try one word of the title, or a year.`;
      announce(total === 0 ? "Nothing found." : `${plural(total, this.noun)} found, the first ${found.length} listed.`);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.close();
      this.failed(error);
    }
  }

  #show(found) {
    this.found = found;
    this.list.replaceChildren(
      ...found.map((entry, place) => {
        const [text, detail] = this.say(entry);
        const option = { id: `${this.list.id}-${place}`, role: "option", "aria-selected": "false" };
        return make("li", option, make("span", {}, text), make("span", { class: "detail" }, detail));
      }),
    );
    this.list.hidden = found.length === 0;
    this.list.scrollTop = 0;
    this.input.setAttribute("aria-expanded", String(found.length > 0));
    this.#mark(-1);
  }

  #key(event) {
    const last = this.found.length - 1;
    const moves = {
      ArrowDown: this.active >= last ? 0 : this.active + 1,
      ArrowUp: this.active <= 0 ? last : this.active - 1,
    };
    if (event.key in moves) {
      event.preventDefault();
      if (this.list.hidden) this.#look();
      else this.#mark(moves[event.key]);
    } else if (event.key === "Enter" && (this.stale || !this.list.hidden)) {
      event.preventDefault();
      this.#enter();
    } else if (event.key === "Escape") {
      if (this.list.hidden && this.none.hidden) this.input.value = "";
      this.close();
    }
  }

  /** Take what is marked, else the first; who types faster than the service answers gets the answer to all of it. */
  async #enter() {
    clearTimeout(this.timer);
    if (this.stale) await this.#look();
    if (!this.stale) this.#take(Math.max(0, this.active));
  }

  #mark(place) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = place;
    const option = this.list.children[place];
    if (!option) return this.input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }

  #take(place) {
    const entry = this.found[place];
    if (entry === undefined) return;
    this.input.value = "";
    this.close();
    this.pick(entry);
  }

  close() {
    clearTimeout(this.timer);
    this.list.hidden = true;
    this.none.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.#mark(-1);
  }
}
