// What is being said and written right now: text, reasoning and output of commands, until the finished item is in the log.
// Observed by itself: a thousand pieces a second change nothing else of the page.

import { Observed } from "./observed.js";

const MOST_OUTPUT = 64 * 1024; // characters of a running command that are kept; its end has what the log keeps

export class LiveText extends Observed {
  constructor() {
    super();
    this.clear();
  }

  clear() {
    this.text = "";
    this.reasoning = "";
    /** @type {Map<string, string>} */
    this.output = new Map(); // by call
    this._decoders = new Map();
  }

  /** Whether the event was a piece of something unfinished. */
  take({ msg }) {
    switch (msg.type) {
      case "agent_message_content_delta":
      case "agent_message_delta":
        this.text += msg.delta;
        return true;
      case "reasoning_content_delta":
      case "reasoning_raw_content_delta":
      case "agent_reasoning_delta":
      case "agent_reasoning_raw_content_delta":
        this.reasoning += msg.delta;
        return true;
      case "exec_command_output_delta":
        this._addOutput(msg);
        return true;
      default:
        return false;
    }
  }

  /** A record takes the place of what was said of it so far. */
  settle({ msg }) {
    switch (msg.type) {
      case "agent_message":
        this.text = "";
        break;
      case "agent_reasoning":
      case "agent_reasoning_raw_content":
        this.reasoning = "";
        break;
      case "exec_command_end":
        this.output.delete(msg.call_id);
        this._decoders.delete(msg.call_id);
        break;
      case "task_complete":
      case "turn_aborted":
      case "error":
        this.text = "";
        this.reasoning = "";
        break;
      default:
    }
  }

  _addOutput({ call_id: call, stream, chunk }) {
    const name = `${call} ${stream}`; // each stream may be cut in the middle of a character
    if (!this._decoders.has(name)) this._decoders.set(name, new TextDecoder());
    const text = (this.output.get(call) ?? "") + this._decoders.get(name).decode(bytesOf(chunk), { stream: true });
    this.output.set(call, text.length > MOST_OUTPUT ? `… earlier output is left out here\n${text.slice(-MOST_OUTPUT / 2)}` : text);
  }
}

function bytesOf(chunk) {
  if (Array.isArray(chunk)) return Uint8Array.from(chunk);
  return Uint8Array.from(atob(chunk), (character) => character.charCodeAt(0));
}
