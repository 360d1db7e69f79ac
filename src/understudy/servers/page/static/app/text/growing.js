// Markdown that is still being said. What is complete stays as it is; only the last block is parsed again as it grows.

import { LONGEST_BLOCK, blocksOf, showBlock } from "./markdown.js";
import { shown } from "./visible.js";

const SHORTEST_PAUSE = 60; // milliseconds between two looks at the open block
const SHARE = 5; // parsing takes at most one part in so many of the time
const MOST_AT_ONCE = 8; // milliseconds for blocks that are complete, so that a burst of text does not hold up the page

/** Shows a growing text in an element of the page. */
export class GrowingMarkdown {
  /** @param {HTMLElement} element */
  constructor(element) {
    this._element = element;
    this._open = document.createElement("div");
    element.replaceChildren(this._open);
    this._text = "";
    this._plainLength = 0; // of the open block, where it is too long to be parsed
    this._closed = 0; // so many characters are shown for good
    this._next = 0; // when the open block may be parsed again
    this._timer = 0;
  }

  /** @param {string} text all of it so far; it begins with what was given before, or is another text */
  show(text) {
    if (!text.startsWith(this._text)) {
      this._closed = 0;
      this._open.replaceChildren();
      this._element.replaceChildren(this._open);
    }
    this._text = text;
    const wait = this._next - performance.now();
    if (wait <= 0) this._parse();
    else if (!this._timer) this._timer = setTimeout(() => this._parse(), wait);
  }

  stop() {
    clearTimeout(this._timer);
  }

  _parse() {
    clearTimeout(this._timer);
    this._timer = 0;
    const began = performance.now();
    const blocks = blocksOf(this._text.slice(this._closed));
    const found = performance.now();
    const until = found + Math.max(MOST_AT_ONCE, found - began); // finding them is done anew each time, so it must be worth it
    let done = 0;
    while (done < blocks.length - 1 && (done === 0 || performance.now() < until)) {
      this._open.before(showBlock(blocks[done]));
      this._closed += blocks[done].raw.length;
      done += 1;
    }
    if (done < blocks.length - 1) {
      this._open.replaceChildren(); // what it showed is among those above it now
      this._plainLength = 0;
      this._next = performance.now() + MOST_AT_ONCE;
      this._timer = setTimeout(() => this._parse(), MOST_AT_ONCE);
      return;
    }
    this._showOpen(blocks.at(-1) ?? { raw: "", isCode: false });
    this._next = performance.now() + Math.max(SHORTEST_PAUSE, (performance.now() - began) * SHARE);
  }

  /** A block that is too long to be parsed again and again grows as plain text, by what is new of it. */
  _showOpen(block) {
    const plain = this._open.firstChild?.className === "plain" ? this._open.firstChild : null;
    if (block.isCode || block.raw.length <= LONGEST_BLOCK || !plain) this._open.replaceChildren(showBlock(block, true));
    else plain.append(shown(block.raw.slice(this._plainLength)));
    this._plainLength = block.raw.length;
  }
}
