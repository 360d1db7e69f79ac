// Output of a command or a tool: folded to a few lines, without anything a terminal would obey.

import { html, useMemo, useState } from "../preact.js";
import { many } from "../text/format.js";
import { terminalText } from "../text/visible.js";

const RUNNING_LINES = 8;
const FAILED_LINES = 12;
const MOST_SHOWN = 60_000; // characters

export function Output({ text, isRunning = false, isFailed = false, unfolded = false }) {
  const [choice, setChoice] = useState(null); // of the person; else it depends on how it went
  const plain = useMemo(() => terminalText(text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN / 2)}\n…\n${text.slice(-MOST_SHOWN / 2)}` : text).replace(/\n+$/, ""), [text]);
  if (!plain) return null;
  const lines = plain.split("\n");
  const preview = isRunning ? RUNNING_LINES : isFailed ? FAILED_LINES : 0;
  const isOpen = choice ?? (unfolded || lines.length <= preview);
  const shown = isOpen ? plain : lines.slice(-preview).join("\n");
  const label = isOpen ? "Fold the output" : preview ? `Show all ${many(lines.length, "line")}` : many(lines.length, "line");
  return html`
    <div class="output">
      ${(!isOpen || lines.length > preview) && html`<button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setChoice(!isOpen)}>${label}</button>`}
      ${(isOpen || preview > 0) && html`<pre dir="ltr" tabindex=${isOpen && lines.length > 12 ? 0 : undefined} aria-label="Output">${shown}</pre>`}
    </div>`;
}
