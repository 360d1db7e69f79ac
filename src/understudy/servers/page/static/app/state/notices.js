// Short messages to the person: shown for a while, and read out by screen readers.

import { Observed } from "./observed.js";

const SHOWN_FOR = 7000;

class Notices extends Observed {
  constructor() {
    super();
    this.all = [];
    this._next = 1;
  }

  tell(text, tone = "") {
    const notice = { key: this._next++, text, tone };
    this.all = [...this.all.slice(-2), notice];
    setTimeout(() => this.dismiss(notice.key), tone === "bad" ? 2 * SHOWN_FOR : SHOWN_FOR);
    this.changed();
  }

  dismiss(key) {
    this.all = this.all.filter((notice) => notice.key !== key);
    this.changed();
  }
}

export const notices = new Notices();

/** @param {string} text @param {""|"bad"} tone */
export const tell = (text, tone = "") => notices.tell(text, tone);

/** Do something for the person; what goes wrong is told to them. Whether it went well. */
export async function attempt(act, done = "") {
  try {
    const value = await act();
    if (done) tell(done);
    return value ?? true;
  } catch (error) {
    tell(error.message, "bad");
    return null;
  }
}
