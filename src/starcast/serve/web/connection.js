// What happens when the service does not answer: the page says so, keeps what it has, and tries again by itself.

import { forgetToken, isToken, keepToken, Refused, Unreachable } from "./api.js";
import { byId } from "./dom.js";

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 15_000;

export class Connection {
  /** onReturn() when the service can be asked again. */
  constructor(onReturn) {
    this.onReturn = onReturn;
    this.notice = byId("notice");
    this.words = this.notice.querySelector("p");
    this.form = this.notice.querySelector("form");
    this.wait = FIRST_WAIT;
    byId("retry").addEventListener("click", () => this.#knock());
    addEventListener("online", () => this.lost && this.#knock());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = this.form.querySelector("input").value.trim();
      if (!isToken(given)) return this.#askForToken("A token has only letters, digits and signs of ASCII, no spaces.");
      keepToken(given);
      this.fine();
      this.onReturn();
    });
  }

  /** Say something that is no failure; the next answer takes it away. */
  tell(text) {
    this.#say(text, {});
  }

  /** Something was answered: whatever was said before is over. */
  fine() {
    clearTimeout(this.timer);
    this.lost = false;
    this.wait = FIRST_WAIT;
    this.notice.hidden = true;
  }

  failed(error) {
    if (error.name === "AbortError") return;
    if (error instanceof Unreachable)
      this.#outage("The service cannot be reached. What you see stays; the page keeps trying.");
    else if (error instanceof Refused && error.status === 503)
      this.#outage("The service is busy or still starting. The page keeps trying.");
    else if (error instanceof Refused && error.status === 401)
      this.#askForToken(
        error.token
          ? "The service does not accept this token. Check it and try again."
          : "This service needs a token. Its operator has it.",
        error.token,
      );
    else if (error instanceof Refused) this.#say(`The service declined: ${error.message}`, {});
    else {
      this.#say("Something on this page went wrong. Reload it to go on.", {});
      throw error;
    }
  }

  #say(text, { form = false, retry = false }) {
    this.words.textContent = text;
    this.form.hidden = !form;
    byId("retry").hidden = !retry;
    this.notice.hidden = false;
  }

  /** Ask for a token; the one that was refused is forgotten, unless another was given meanwhile. */
  #askForToken(text, refused = null) {
    if (refused !== null) forgetToken(refused);
    clearTimeout(this.timer);
    this.#say(text, { form: true });
    const input = this.form.querySelector("input");
    input.focus();
    input.select();
  }

  #outage(text) {
    this.lost = true;
    this.#say(text, { retry: true });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#knock(), this.wait);
    this.wait = Math.min(this.wait * 1.6, LONGEST_WAIT);
  }

  async #knock() {
    clearTimeout(this.timer);
    try {
      const answer = await fetch("readyz", { cache: "no-store", signal: AbortSignal.timeout(5_000) });
      if (!answer.ok) throw new Refused(answer.status, "not ready");
    } catch {
      this.#outage(this.words.textContent);
      return;
    }
    this.fine();
    this.onReturn();
  }
}
