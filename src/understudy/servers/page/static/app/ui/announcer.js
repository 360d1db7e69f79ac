// Tells a screen reader what is new: finished messages, states, questions. Text that is still growing is not read out.

import { html, useEffect, useState } from "../preact.js";
import { useObserved } from "../state/observed.js";
import { shown } from "../text/visible.js";
import { STATES } from "./list_view.js";

export function Announcer({ conversation }) {
  useObserved(conversation);
  const [said, setSaid] = useState("");
  const { items, questions, state } = conversation;
  const last = items.findLast((item) => item.kind === "agent" || (item.kind === "note" && item.tone === "bad"));
  const asked = questions.open[0];
  useEffect(() => {
    if (last) setSaid(shown(last.text.slice(0, 600)));
  }, [last?.key]);
  useEffect(() => setSaid(`The agent is ${STATES[state] ?? state}.`), [state]);
  useEffect(() => {
    if (asked) setSaid(`A question waits for you: ${shown(asked.text ?? "").slice(0, 400)}. Press q to go to it.`);
  }, [asked?.call_id]);
  return html`<div class="visually-hidden" role="log" aria-live="polite" aria-label="News of this conversation">${said}</div>`;
}
