// Reads a stream of server-sent events. Pure: text in, events out.

/** @typedef {{id: string|null, event: string, data: string}} Sent */

export class EventReader {
  constructor() {
    this._rest = "";
    this._begin();
  }

  _begin() {
    this._id = null;
    this._event = "message";
    this._data = [];
  }

  /**
   * @param {string} text another piece of the stream, cut anywhere
   * @returns {Sent[]} the events that are whole by now
   */
  feed(text) {
    const whole = [];
    // A carriage return at the end may be half of a line break: it waits for what follows.
    let rest = this._rest + text;
    let held = "";
    if (rest.endsWith("\r")) {
      rest = rest.slice(0, -1);
      held = "\r";
    }
    const lines = rest.split(/\r\n|\n|\r/);
    this._rest = lines.pop() + held;
    for (const line of lines) {
      if (line === "") {
        if (this._data.length) whole.push({ id: this._id, event: this._event, data: this._data.join("\n") });
        this._begin();
      } else this._field(line);
    }
    return whole;
  }

  _field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, which keeps the connection alive
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this._data.push(value);
    else if (name === "id") this._id = value;
    else if (name === "event") this._event = value;
  }
}
