// Events of a conversation -> what the timeline shows. Pure: a fold over the events of the window, in their order.
//
// An item is made by the first event that speaks of it and completed by later ones with the same turn and call. The window may begin
// anywhere, so an end whose beginning is not there makes the item itself: events repeat what is needed for that.

/**
 * @typedef {{seq: number, at: number|string, turn: string, by?: string, msg: Record<string, any>}} Event
 * @typedef {Record<string, any> & {kind: string, key: string, seq: number, at: number|string, turn: string}} Item
 */

export class Timeline {
  constructor() {
    /** @type {Item[]} */
    this.items = [];
    this._byCall = new Map();
    this._index = 0; // one record may have several events
    this._lastSeq = -1;
  }

  /** @param {Event} event */
  add(event) {
    this._index = event.seq === this._lastSeq ? this._index + 1 : 0;
    this._lastSeq = event.seq;
    READERS[event.msg.type]?.(this, event, event.msg);
  }

  make(event, kind, fields = {}) {
    const item = { kind, key: `${event.seq}.${this._index}`, seq: event.seq, at: event.at, turn: event.turn, by: event.by, ...fields };
    this.items.push(item);
    return item;
  }

  /** A call begins: an item of its own, even where a model uses a call id again. */
  begin(event, kind, fields) {
    this._byCall.set(`${kind} ${event.turn} ${event.msg.call_id}`, this.items.length);
    this.make(event, kind, { callId: event.msg.call_id, ...fields });
  }

  /** More about a call. Its item is replaced, so that what shows it notices. */
  call(event, kind, fields) {
    const name = `${kind} ${event.turn} ${event.msg.call_id}`;
    const index = this._byCall.get(name);
    if (index === undefined) this.begin(event, kind, fields);
    else this.items[index] = { ...this.items[index], ...fields };
  }

  /** Only the newest of its turn is shown: a plan that goes on, a diff that grows. */
  latest(event, kind, fields) {
    const name = `${kind} ${event.turn}`;
    const index = this._byCall.get(name);
    if (index !== undefined) this.items[index] = { ...this.items[index], kind: "nothing" };
    this._byCall.set(name, this.items.length);
    this.make(event, kind, fields);
  }

  note(event, text, tone = "") {
    this.make(event, "note", { text, tone });
  }
}

/** @param {Event[]} events */
export function timelineOf(events) {
  const timeline = new Timeline();
  for (const event of events) timeline.add(event);
  return timeline;
}

const commandOf = (msg) => (Array.isArray(msg.command) ? { argv: msg.command, cwd: pathOf(msg.cwd), process: msg.process_id ?? null } : {});

/** A path that may have been written as a file: address. */
function pathOf(path) {
  if (!String(path ?? "").startsWith("file://")) return path ?? "";
  try {
    return decodeURIComponent(path.slice("file://".length));
  } catch {
    return path;
  }
}

const READERS = {
  user_message: (timeline, event, msg) =>
    timeline.make(event, "user", { text: msg.message ?? "", images: msg.images ?? [], messageId: msg.message_id ?? null, mode: msg.mode }),
  message_queued: (timeline, event, msg) => timeline.make(event, "queued", { text: msg.message ?? "", images: msg.images ?? [], messageId: msg.message_id ?? null }),
  message_dropped: (timeline, event, msg) => timeline.note(event, `A queued message was not sent: ${msg.reason ?? ""}`, "warn"),
  agent_message_cut: (timeline, event, msg) => timeline.make(event, "agent", { text: msg.message ?? "", isCut: true }),
  agent_message: (timeline, event, msg) => timeline.make(event, "agent", { text: msg.message ?? "" }),
  agent_reasoning: (timeline, event, msg) => timeline.make(event, "reasoning", { text: msg.text ?? "" }),
  agent_reasoning_raw_content: (timeline, event, msg) => timeline.make(event, "reasoning", { text: msg.text ?? "" }),

  exec_command_begin: (timeline, event, msg) => timeline.begin(event, "command", { ...commandOf(msg), isOutside: msg.outside === true, state: "running" }),
  exec_command_end: (timeline, event, msg) =>
    timeline.call(event, "command", {
      ...commandOf(msg),
      output: msg.aggregated_output ?? `${msg.stdout ?? ""}${msg.stderr ?? ""}`,
      exitCode: msg.exit_code,
      duration: msg.duration,
      state: msg.exit_code === 0 ? "done" : "failed",
    }),
  terminal_interaction: (timeline, event, msg) => timeline.note(event, `Typed at process ${msg.process_id}: ${JSON.stringify(msg.stdin ?? "")}`),

  patch_apply_begin: (timeline, event, msg) => timeline.begin(event, "patch", { changes: msg.changes ?? {}, state: "running" }),
  patch_apply_end: (timeline, event, msg) =>
    timeline.call(event, "patch", {
      ...(Object.keys(msg.changes ?? {}).length ? { changes: msg.changes } : {}),
      state: msg.success ? "done" : "failed",
      output: msg.success ? "" : `${msg.stdout ?? ""}${msg.stderr ?? ""}`,
    }),
  turn_diff: (timeline, event, msg) => timeline.latest(event, "turn-diff", { diff: msg.unified_diff ?? "" }),

  mcp_tool_call_begin: (timeline, event, msg) => timeline.begin(event, "tool", { ...msg.invocation, state: "running" }),
  mcp_tool_call_end: (timeline, event, msg) =>
    timeline.call(event, "tool", { ...msg.invocation, result: msg.result, duration: msg.duration, state: msg.result?.Err === undefined ? "done" : "failed" }),
  plan_update: (timeline, event, msg) => timeline.latest(event, "plan", { steps: msg.plan ?? [], explanation: msg.explanation ?? "" }),
  view_image_tool_call: (timeline, event, msg) => timeline.note(event, `Looked at the image ${pathOf(msg.path)}`),

  exec_approval_request: (timeline, event, msg) => timeline.begin(event, "question", { ask: "command", ...commandOf(msg), reason: msg.reason ?? "" }),
  apply_patch_approval_request: (timeline, event, msg) => timeline.begin(event, "question", { ask: "patch", changes: msg.changes ?? {}, reason: msg.reason ?? "" }),
  approval_request: (timeline, event, msg) => timeline.begin(event, "question", { ask: msg.kind, text: msg.message ?? "" }),
  approval_decided: (timeline, event, msg) => {
    if (msg.effective === false) return;
    timeline.call(event, "question", { decision: msg.decision, decidedBy: msg.by ?? event.by ?? "", source: msg.source ?? "", word: msg.message ?? msg.word ?? "" });
  },

  task_started: (timeline, event) => timeline.make(event, "turn", {}),
  task_complete: (timeline, event, msg) => timeline.make(event, "end", { failed: Boolean(msg.error) }),
  turn_aborted: (timeline, event) => timeline.note(event, "Stopped.", "quiet"),
  error: (timeline, event, msg) => timeline.note(event, msg.message ?? "The turn failed.", "bad"),
  background_event: (timeline, event, msg) => timeline.note(event, msg.message ?? ""),
  stream_error: (timeline, event, msg) => timeline.note(event, `${msg.message ?? "Reconnecting..."}: ${msg.additional_details ?? "the model's answer broke off"}`),
  warning: (timeline, event, msg) => timeline.note(event, msg.message ?? "", "warn"),
  tool_images: (timeline, event, msg) => timeline.make(event, "pictures", { images: msg.images ?? [] }),
  compaction_started: (timeline, event) => timeline.note(event, "Summing up the conversation …", "quiet"),
  context_compacted: (timeline, event) => timeline.note(event, "The conversation so far was summed up for the model.", "quiet"),
  thread_name_updated: (timeline, event, msg) => timeline.note(event, `Renamed to “${msg.thread_name ?? ""}”.`, "quiet"),
  undo_completed: (timeline, event, msg) => timeline.note(event, msg.message ?? "Undone.", msg.success === false ? "warn" : "quiet"),
  archived: (timeline, event, msg) => timeline.note(event, msg.archived === false ? "Taken out of the archive." : "Archived.", "quiet"),
  forked: (timeline, event, msg) => timeline.note(event, `Forked from ${msg.from ?? msg.conversation_id ?? "another conversation"}.`, "quiet"),
  mcp_startup_complete: (timeline, event, msg) => {
    for (const { server, error } of msg.failed ?? []) timeline.note(event, `The MCP server ${server} is not there: ${error}`, "warn");
  },
};
