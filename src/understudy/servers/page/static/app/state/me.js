// Who looks at the page, and what they may do. Until the server has said so, nothing is hidden: it is the server that refuses.

import { get } from "../net/api.js";
import { Observed } from "./observed.js";

class Me extends Observed {
  constructor() {
    super();
    this.name = "";
    this.mayRun = true; // conversations of their own
    this._rights = null; // of their own conversations, and of everybody else's
  }

  async load() {
    try {
      const { name, rights, others } = await get("v1/me");
      this.name = name;
      this._rights = { own: rights, others };
      this.mayRun = rights.includes("run");
      this.changed();
    } catch {
      // Asked again when the list is connected again.
    }
  }

  /** Whether a question of this conversation is one for them. */
  mayAnswer({ owner }) {
    return !this._rights || (owner === this.name ? this._rights.own : this._rights.others).includes("approve");
  }
}

export const me = new Me();

/** Whoever a record names, as the reader calls them. */
export const whoIs = (name) => (name === me.name ? "you" : name);
