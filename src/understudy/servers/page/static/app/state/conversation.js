// One conversation as the page holds it: a window on its log that can be moved, what is being said right now, and what is asked.
//
// Everything comes from the log, so two tabs that look at it agree. The window is bounded: pages are read from the end backwards, and
// what is far from the reader is dropped again.

import { conversationUrl, get, query } from "../net/api.js";
import { follow } from "../net/stream.js";
import { timelineOf } from "./fold.js";
import { LiveText } from "./live_text.js";
import { Observed } from "./observed.js";
import { Questions } from "./questions.js";

export const PAGE = 150; // events that are asked for at once
const MOST_EVENTS = 600; // that the window holds

export class Conversation extends Observed {
  /** @param {string} id */
  constructor(id) {
    super();
    this.id = id;
    this.row = null; // title, state, folder, tokens: as the list has it
    this.failure = null; // why it cannot be shown
    this.trouble = null; // why it is not shown yet
    this.connection = "connecting";
    this.loaded = false;
    this.more = false; // older events are in the log
    this.atEnd = true; // the window reaches to the newest event
    this.unseen = 0; // newer events beyond the window
    this.live = new LiveText();
    this.questions = new Questions(id, () => this.changed());
    this._events = [];
    this._timeline = timelineOf([]);
    this._first = 1; // record of the window, which need not have an event
    this._until = 0; // record up to which the window reaches
    this._last = 0; // record that has been heard of
    this._cursor = null;
    this._stop = () => {};
    this._loading = null;
    this._noted = 0; // events that have changed the state or the title of the row
    this.version = 0; // of the items
    this.keepOld = false; // the reader is looking at what is old: do not take it away
  }

  /** How it stands. A question that is open says more than the row, which may be a moment older. */
  get state() {
    if (this.questions.open.length) return "waiting";
    return this.row?.state === "waiting" ? "working" : this.row?.state;
  }

  get items() {
    return this._timeline.items;
  }

  /** Where the window begins: what is read on depends on it. */
  get first() {
    return this._first;
  }

  async open() {
    try {
      const page = await this._page({ limit: PAGE });
      this._takeRow(await get(conversationUrl(this.id))); // later than the page, so that no question is missed in between
      this._show(page);
    } catch (error) {
      if ([401, 403, 404].includes(error.status)) {
        this.failure = error;
        this.changed();
        return;
      }
      this.trouble = error;
      this.changed();
      if (!this._closed) this._retry = setTimeout(() => this.open(), 2000);
      return;
    }
    this.loaded = true;
    this.changed();
    if (!this._closed) this.resume();
  }

  /** Follow it live, from where the window has come to. */
  resume() {
    if (!this.loaded || this._following) return;
    this._following = true;
    this._stop = follow(() => conversationUrl(this.id, `/events${query({ after: this._last, stream: 1 })}`), {
      lastId: this._cursor,
      onEvent: (event, id) => this._take(event, id),
      onState: (state) => this._connected(state),
    });
  }

  /** Nobody looks: leave the connection to others. */
  pause() {
    this._stop();
    this._following = false;
  }

  close() {
    this._closed = true;
    clearTimeout(this._retry);
    this.pause();
  }

  async refresh() {
    try {
      let row, noted;
      do {
        noted = this._noted;
        row = await get(conversationUrl(this.id));
      } while (noted !== this._noted); // the stream was quicker than the answer, which may be older
      this._takeRow(row);
    } catch (error) {
      if (error.status === 404) this.failure = error;
    }
    this.changed();
  }

  /** The row as another request or the list's stream has it. */
  update(row) {
    this.row = { ...this.row, ...row };
    this.changed();
  }

  /** What the list knows besides the events. State and questions come with those, in their order. */
  merge({ tokens, cost_usd, viewers, archived, model }) {
    this.row = { ...this.row, tokens, cost_usd, viewers, archived, model };
    this.changed();
  }

  async older() {
    if (!this.more || this._loading) return;
    await this._load(async () => {
      const page = await this._page({ before: this._first, limit: PAGE });
      this.more = page.more;
      this._first = page.first;
      const events = [...page.events, ...this._events];
      const kept = cutAtRecord(events, MOST_EVENTS, "end");
      if (kept.length < events.length) {
        this.atEnd = false;
        this._until = kept.at(-1).seq;
      }
      this._replace(kept);
    });
  }

  /** Towards the end again, one page at a time. */
  async newer() {
    if (this.atEnd || this._loading) return;
    await this._load(async () => {
      const page = await this._page({ after: this._until, limit: PAGE });
      this._until = Math.max(this._until, page.last);
      const events = [...this._events, ...page.events.filter((event) => event.seq <= this._last)];
      this._replaceFrom(cutAtRecord(events, MOST_EVENTS, "start"), events.length);
      this.atEnd = this._until >= this._last;
      if (this.atEnd) this.unseen = 0;
    });
  }

  async toEnd() {
    if (this.atEnd) return;
    await this._load(async () => this._show(await this._page({ limit: PAGE })));
  }

  async toStart() {
    await this._load(async () => {
      const page = await this._page({ after: 0, limit: PAGE });
      this.more = false;
      this._first = page.first;
      this._until = page.last;
      this.atEnd = page.last >= this._last;
      this._replace(page.events);
    });
  }

  _page(parameters) {
    return get(conversationUrl(this.id, `/events${query({ ...parameters, stream: 0 })}`));
  }

  async _load(read) {
    this._loading = read();
    try {
      await this._loading;
    } finally {
      this._loading = null;
      this.changed();
    }
  }

  _show(page) {
    this.more = page.more;
    this.atEnd = true;
    this.unseen = 0;
    this._first = page.first;
    if (this._following) page.events = page.events.filter((event) => event.seq <= this._last); // the rest comes by the stream
    else this._last = page.last;
    this._replace(page.events);
  }

  /** `before`: how many there were before the first ones were dropped. */
  _replaceFrom(events, before) {
    if (events.length < before) {
      this.more = true;
      this._first = events[0].seq;
    }
    this._replace(events);
  }

  _replace(events) {
    this.version += 1;
    this._events = events;
    this._timeline = timelineOf(events);
  }

  _takeRow(row) {
    this.row = row;
    this.questions.add(row.questions ?? []);
  }

  _connected(state) {
    if (state === "live" && this.connection === "lost") this.refresh(); // what happened meanwhile may have changed the row
    if (state === "connecting") this.connection = "lost";
    else this.connection = state;
    if (state === "gone") this.refresh();
    this.changed();
  }

  _take(event, id) {
    if (id) this._cursor = id;
    if (!event?.msg) return;
    if (this.live.take(event)) {
      this.live.changed();
      return;
    }
    this.live.settle(event);
    this.live.changed();
    this.questions.take(event);
    if (event.seq) this._last = Math.max(this._last, event.seq);
    noteInRow(this, event);
    if (changesQueue(event, this.row)) this.refresh();
    if (this.atEnd) this._append(event);
    else this.unseen += 1;
    this.changed();
  }

  _append(event) {
    this.version += 1;
    this._events.push(event);
    if (this._events.length <= MOST_EVENTS + PAGE) {
      this._timeline.add(event);
    } else if (this.keepOld) {
      this._events.pop();
      this.atEnd = false; // the reader stays where they are; a button leads to what is new
      this._until = this._events.at(-1).seq - 1; // its other events may be missing
      this._replace(this._events.filter((known) => known.seq <= this._until));
      this.unseen = 1;
    } else this._replaceFrom(cutAtRecord(this._events, MOST_EVENTS, "start"), this._events.length);
  }
}

/** At most so many events, without tearing apart those of one record. */
function cutAtRecord(events, most, side) {
  if (events.length <= most) return events;
  if (side === "end") {
    let end = most;
    while (end > 1 && events[end - 1].seq === events[end].seq) end -= 1;
    return events.slice(0, end);
  }
  let start = events.length - most;
  while (start < events.length - 1 && events[start - 1].seq === events[start].seq) start += 1;
  return events.slice(start);
}

/** Only the row says how many messages wait for turns of their own. */
const changesQueue = ({ msg: { type } }, row) => type === "message_queued" || type === "message_dropped" || (type === "user_message" && row?.queued > 0);

/** What the header shows changes with the events, before the list's stream tells of it. */
function noteInRow(conversation, { msg, turn }) {
  const row = conversation.row;
  if (!row) return;
  if (msg.type === "task_started") conversation.row = { ...row, state: "working", turn };
  else if (msg.type === "task_complete" || msg.type === "turn_aborted") conversation.row = { ...row, state: msg.error ? "failed" : "idle", turn: null };
  else if (msg.type === "thread_name_updated") conversation.row = { ...row, title: msg.thread_name };
  else if (msg.type === "token_count" && msg.info) {
    const { total_token_usage: total, last_token_usage: last, model_context_window: window } = msg.info;
    conversation.row = { ...row, tokens: total?.total_tokens ?? row.tokens, context: last?.total_tokens, window };
  } else if (msg.type === "viewers") conversation.row = { ...row, viewers: msg.viewers };
  if (conversation.row.state !== row.state || conversation.row.title !== row.title) conversation._noted += 1;
}
