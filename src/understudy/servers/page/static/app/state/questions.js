// The questions of one conversation that are open, and their answers. The first answer counts, whoever gives it; who comes second is told.

import { conversationUrl, get, post } from "../net/api.js";
import { secondsOf } from "../text/format.js";
import { tell } from "./notices.js";

const ASKED = new Set(["exec_approval_request", "apply_patch_approval_request", "approval_request"]);
const WORDS = {
  approved: "approved",
  approved_for_session: "approved for the session",
  denied: "denied",
  abort: "stopped",
  timed_out: "not answered in time",
};

export const decisionWord = (decision) => WORDS[decision] ?? String(decision ?? "answered").replaceAll("_", " ");

export class Questions {
  constructor(id, changed) {
    this._id = id;
    this._changed = changed;
    /** @type {Record<string, any>[]} as the server describes them: exact command or patch, why it asks, what a yes lifts */
    this.open = [];
    this.answering = new Set(); // calls whose answer is on its way
    this._answered = new Set(); // here, so that nobody is told of their own answer
    this._decided = new Map(); // when, by call: a row that was on its way meanwhile may still have the question
  }

  set(questions) {
    this.open = questions.filter((question) => !(secondsOf(question.asked_at) <= this._decided.get(question.call_id)));
    this._changed();
  }

  take({ msg, by, at }) {
    if (ASKED.has(msg.type)) {
      if (msg.question) this.set([...this.open.filter((known) => known.call_id !== msg.call_id), msg.question]);
      else this._read();
    } else if (msg.type === "approval_decided" && msg.effective !== false) {
      const asked = this.open.find((question) => question.call_id === msg.call_id);
      if (asked && !this._answered.has(msg.call_id)) tell(`The question was ${decisionWord(msg.decision)} by ${msg.by ?? by ?? "somebody else"}.`);
      this._decided.set(msg.call_id, secondsOf(at));
      this._close(msg.call_id);
    } else if (["task_complete", "turn_aborted"].includes(msg.type) && this.open.length) this._read();
  }

  /** As the server sees it now. */
  async _read() {
    try {
      const row = await get(conversationUrl(this._id));
      this.set(row.questions ?? []);
    } catch {
      // The list's stream or the next reconnect tells of it again.
    }
  }

  /** `mark` keeps the answer from being taken for one on a later question with the same id. */
  async decide({ call_id: callId, mark }, decision, message = "") {
    if (this.answering.has(callId)) return;
    this.answering.add(callId);
    this._answered.add(callId);
    this._changed();
    try {
      await post(conversationUrl(this._id, "/decisions"), { call_id: callId, mark, decision, ...(message ? { message } : {}) });
      this._close(callId);
      tell(decision === "abort" ? "You stopped the turn." : `Your answer: ${decisionWord(decision)}.`);
    } catch (error) {
      this._answered.delete(callId);
      tell(error.message, "bad");
      if (error.status === 409 || error.status === 404) await this._read();
    } finally {
      this.answering.delete(callId);
      this._changed();
    }
  }

  _close(callId) {
    this.open = this.open.filter((question) => question.call_id !== callId);
    this._changed();
  }
}
