// The list of conversations, live. Those that wait for the person come first.

import { get, query } from "../net/api.js";
import { me } from "./me.js";
import { Observed } from "./observed.js";
import { followChanges } from "./shared_changes.js";
import { secondsOf } from "../text/format.js";

const PAGE = 60;
const NO_FILTER = { search: "", state: "", folder: "", archived: false };
const PAUSE = 250; // between a letter in the search field and the search

export class ConversationList extends Observed {
  constructor() {
    super();
    this.filter = NO_FILTER;
    /** @type {Map<string, any>} */
    this._rows = new Map();
    /** @type {Map<string, any>} */
    this._waiting = new Map(); // those that wait for the person, whatever the filter says
    this.nextCursor = null;
    this.loaded = false;
    this.connection = "connecting";
    this.folders = new Set();
    this._asked = 0;
    this._loading = null;
    this._timer = 0;
    this._reading = new Set(); // of each page that is on its way: the rows that were told since it was asked for
  }

  /** Until the first page has come, or has not. */
  start() {
    followChanges((row) => this.take(row), (state) => this._connected(state));
    return this.load();
  }

  get rows() {
    return [...this._rows.values()].filter((row) => this._fits(row)).sort(byUrgency);
  }

  /** For an answer that the reader may give, whatever the filter says. */
  get waiting() {
    return [...this._waiting.values()].filter((row) => me.mayAnswer(row)).sort(byUrgency);
  }

  row(id) {
    return this._rows.get(id);
  }

  choose(changes) {
    const filter = { ...this.filter, ...changes };
    this.filter = Object.values(filter).some(Boolean) ? filter : NO_FILTER;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.load(), "search" in changes ? PAUSE : 0);
    this.changed();
  }

  load() {
    this._loading = this._load();
    return this._loading;
  }

  async _load() {
    const asked = (this._asked += 1);
    const { filter } = this;
    try {
      const [page, told] = await this._page({ limit: PAGE });
      if (asked !== this._asked) return; // the filter has changed since
      this._rows = new Map(page.conversations.map((row) => [row.id, row]));
      if (filter === NO_FILTER) this._waiting.clear(); // the first page has all of them
      this._found = filter.search ? new Set(this._rows.keys()) : null;
      this._note(page);
      for (const row of told) this.take(row);
      this.failure = null;
    } catch (error) {
      this.failure = error;
    }
    this.loaded = true;
    this.changed();
  }

  async loadMore() {
    await this._loading; // which begins the list anew
    if (!this.nextCursor) return;
    const [asked, filter] = [this._asked, this.filter];
    const [page, told] = await this._page({ limit: PAGE, cursor: this.nextCursor });
    if (filter !== this.filter) return;
    if (asked !== this._asked) {
      await this.loadMore();
      return;
    }
    for (const row of page.conversations) {
      this._rows.set(row.id, row);
      this._found?.add(row.id);
    }
    this._note(page);
    for (const row of told) this.take(row);
    this.changed();
  }

  /** With the rows that were told while it was on its way: they may be newer. */
  async _page(parameters, filter = this.filter) {
    const told = [];
    this._reading.add(told);
    try {
      return [await get(`v1/conversations${query({ ...filter, ...parameters })}`), told];
    } finally {
      this._reading.delete(told);
    }
  }

  _note(page) {
    this.nextCursor = page.next_cursor ?? null;
    for (const row of page.conversations) {
      if (row.folder) this.folders.add(row.folder);
      this._noteWaiting(row);
    }
  }

  _noteWaiting(row) {
    if (row.state === "waiting" && !row.archived && !row.deleted) this._waiting.set(row.id, row);
    else this._waiting.delete(row.id);
  }

  /** Where a filter keeps them out of the list. The smallest page has them all: they come first. */
  async _loadWaiting() {
    try {
      const [page, told] = await this._page({ limit: 1 }, NO_FILTER);
      this._waiting.clear();
      for (const row of [...page.conversations, ...told]) this._noteWaiting(row);
      this.changed();
    } catch {
      // Read again when the list is connected again.
    }
  }

  _connected(state) {
    if (state === "live" && this.connection !== "live") {
      this.load(); // changes may have been missed, also since the first page was asked for
      if (this.filter !== NO_FILTER) this._loadWaiting();
      me.load(); // somebody else may have logged in
    }
    this.connection = state === "connecting" ? "lost" : state;
    this.changed();
  }

  forget(id) {
    this._rows.delete(id);
    this._waiting.delete(id);
    this.changed();
  }

  /** A row that has changed, or is new. */
  take(row) {
    if (!row?.id) return;
    for (const told of this._reading) told.push(row);
    this._noteWaiting(row);
    if (row.deleted) this._rows.delete(row.id);
    else {
      if (row.folder) this.folders.add(row.folder);
      this._rows.set(row.id, { ...this._rows.get(row.id), ...row });
      if (this._found && !this._found.has(row.id)) this._searchAgain();
    }
    this.changed();
  }

  _searchAgain() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.load(), 1000);
  }

  _fits(row) {
    const { state, folder, archived } = this.filter;
    if (this._found && !this._found.has(row.id)) return false;
    return Boolean(row.archived) === archived && (!state || row.state === state) && (!folder || `${row.folder}/`.startsWith(`${folder}/`));
  }
}

function byUrgency(one, other) {
  const waiting = Number(other.state === "waiting") - Number(one.state === "waiting");
  return waiting || secondsOf(other.updated) - secondsOf(one.updated) || (one.id < other.id ? 1 : -1);
}
