// The questions of one conversation that are open, and their answers. The first answer counts, whoever gives it; who comes second is told.

import { conversationUrl, post } from "../net/api.js";
import { secondsOf } from "../text/format.js";
import { whoIs } from "./me.js";
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

/** Ids of calls are used again; `mark` says which question it is. */
export const nameOf = ({ call_id: callId, mark }) => `${callId} ${mark}`;

/**
 * Events tell everything, in its order: only they take a question away. A row may be older than what they have told, or newer, so it
 * only adds questions: its answer may have been on its way while the next question came up.
 */
export class Questions {
  constructor(id, changed) {
    this._id = id;
    this._changed = changed;
    /** @type {Record<string, any>[]} as the server describes them: exact command or patch, why it asks, what a yes lifts */
    this.open = [];
    this.answering = new Set(); // names of those whose answer is on its way
    this._answered = new Set(); // here, so that nobody is told of their own answer
    this._decided = new Map(); // when, by call
  }

  /** What a row has. */
  add(questions) {
    this._put(questions.filter((question) => !this._isDecided(question)));
  }

  _put(questions) {
    const rows = new Map(questions.map((question) => [nameOf(question), question]));
    const known = this.open.map((question) => rows.get(nameOf(question)) ?? question); // a row knows more: when a question ends by itself
    for (const question of known) rows.delete(nameOf(question));
    this.open = [...known, ...rows.values()];
    this._changed();
  }

  take({ msg, by, at }) {
    if (ASKED.has(msg.type)) this._ask(msg.question);
    else if (msg.type === "approval_decided" && msg.effective !== false) {
      this._decided.set(msg.call_id, secondsOf(at) + 0.001); // times of events are cut to milliseconds
      const asked = this.open.find((question) => this._isDecided(question));
      if (asked && !this._answered.has(nameOf(asked))) tell(`The question was ${decisionWord(msg.decision)} by ${whoIs(msg.by ?? by ?? "somebody else")}.`);
      this._keep((question) => !this._isDecided(question));
    } else if (["task_complete", "turn_aborted"].includes(msg.type)) this._keep(() => false); // none outlives its turn
  }

  /** It comes after every decision so far, though a model may ask again under the same id within the same millisecond. */
  _ask(question) {
    if (this._isDecided(question)) this._decided.set(question.call_id, question.mark - 1e-6);
    this._put([question]);
  }

  /** `mark` keeps the answer from being taken for one on a later question with the same id. */
  decide(question, decision, message = "") {
    const said = decision === "abort" ? "You stopped the turn." : `Your answer: ${decisionWord(decision)}.`;
    return this._send(question, "/decisions", { decision, ...(message ? { message } : {}) }, said);
  }

  /** To what the model wants to know. */
  answer(question, answers) {
    return this._send(question, "/answers", { answers }, "Your answer was sent.");
  }

  async _send(question, path, body, said) {
    const name = nameOf(question);
    if (this.answering.has(name)) return;
    this.answering.add(name);
    this._answered.add(name);
    this._changed();
    const { call_id, mark } = question;
    try {
      await post(conversationUrl(this._id, path), { call_id, mark, ...body });
      this._keep((each) => nameOf(each) !== name);
      tell(said);
    } catch (error) {
      this._answered.delete(name);
      tell(error.message, "bad");
      if (error.status === 404 || error.details?.decision) this._keep((each) => nameOf(each) !== name);
    } finally {
      this.answering.delete(name);
      this._changed();
    }
  }

  _isDecided(question) {
    return question.mark <= this._decided.get(question.call_id);
  }

  _keep(isKept) {
    this.open = this.open.filter(isKept);
    this._changed();
  }
}
