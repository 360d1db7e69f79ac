// Output of a command or a tool: folded to a few lines, in its colours, without anything else that a terminal would obey.

import { html, useMemo, useState } from "../preact.js";
import { colouredLines } from "../text/colours.js";
import { many } from "../text/format.js";

const RUNNING_LINES = 8;
const FAILED_LINES = 12;
const MOST_SHOWN = 60_000; // characters

export function Output({ text, isRunning = false, isFailed = false, unfolded = false }) {
  const [choice, setChoice] = useState(null); // of the person; else it depends on how it went
  const lines = useMemo(() => colouredLines(text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN / 2)}\n…\n${text.slice(-MOST_SHOWN / 2)}` : text), [text]);
  if (!lines.length) return null;
  const preview = isRunning ? RUNNING_LINES : isFailed ? FAILED_LINES : 0;
  const isOpen = choice ?? (unfolded || lines.length <= preview);
  const shown = isOpen ? lines : lines.slice(-preview);
  const label = isOpen ? "Fold the output" : preview ? `Show all ${many(lines.length, "line")}` : many(lines.length, "line");
  return html`
    <div class="output">
      ${(!isOpen || lines.length > preview) && html`<button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setChoice(!isOpen)}>${label}</button>`}
      ${(isOpen || preview > 0) && html`<pre dir="ltr" role="group" tabindex=${isOpen && lines.length > 12 ? 0 : undefined} aria-label="Output">${piecesOf(shown)}</pre>`}
    </div>`;
}

/** Plain text stays one text; only what has a look of its own is an element. */
function piecesOf(lines) {
  const pieces = [];
  let plain = "";
  lines.forEach((runs, number) => {
    if (number) plain += "\n";
    for (const { text, look } of runs) {
      if (!look) plain += text;
      else {
        pieces.push(plain, html`<span class=${look}>${text}</span>`);
        plain = "";
      }
    }
  });
  return [...pieces, plain];
}
