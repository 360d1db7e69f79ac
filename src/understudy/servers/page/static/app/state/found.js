// What was said and run, as the search field finds it in all conversations.

import { get, query } from "../net/api.js";
import { Observed } from "./observed.js";

const PAUSE = 350; // between a letter and the search: it reads more than the list does
const PAGE = 20;
const HAS_A_WORD = /[\p{L}\p{N}]/u; // without one the server would refuse

export class Found extends Observed {
  constructor() {
    super();
    this.words = "";
    this._folder = "";
    this._forget();
    this._asked = 0;
    this._timer = 0;
  }

  _forget() {
    this.hits = [];
    this.next = null;
    this.failure = null;
    this.looked = false;
  }

  /** @param {string} words @param {string} folder */
  look(words, folder) {
    if (words === this.words && folder === this._folder) return;
    [this.words, this._folder] = [words, folder];
    clearTimeout(this._timer);
    this._asked += 1;
    this._forget();
    this.changed();
    if (HAS_A_WORD.test(words)) this._timer = setTimeout(() => this.more(), PAUSE);
  }

  async more() {
    const asked = (this._asked += 1);
    try {
      const page = await get(`v1/search${query({ q: this.words, folder: this._folder, limit: PAGE, cursor: this.next })}`);
      if (asked !== this._asked) return; // something else is looked for by now
      this.hits = [...this.hits, ...page.hits];
      this.next = page.next;
      this.failure = null;
    } catch (error) {
      if (asked !== this._asked) return;
      this.failure = error;
    }
    this.looked = true;
    this.changed();
  }
}
