// Tells a screen reader what is new: finished messages, states, questions. Text that is still growing is not read out.

import { html, useEffect, useRef, useState } from "../preact.js";
import { nameOf } from "../state/questions.js";
import { useObserved } from "../state/observed.js";
import { shown } from "../text/visible.js";

const STANDING = {
  waiting: "The agent waits for an answer.",
  working: "The agent is at work.",
  idle: "The agent is done.",
  failed: "The turn failed.",
  interrupted: "The turn was stopped.",
};
const KEPT = 6; // news that stay, so that what comes at the same moment is read out as well

const isNews = ({ kind, tone }) => kind === "agent" || (kind === "note" && tone === "bad");

export function Announcer({ conversation, mayAnswer }) {
  useObserved(conversation);
  const [news, setNews] = useState({ next: 0, told: [] });
  const say = (text) => setNews(({ next, told }) => ({ next: next + 1, told: [...told.slice(1 - KEPT), { key: next, text }] }));
  const { items, questions, state } = conversation;
  const heard = useRef(null); // the last item that was told of
  const last = items.findLast(isNews);
  const asked = questions.open[0];
  useEffect(() => {
    const known = items.findIndex((item) => item.key === heard.current);
    const fresh = known < 0 ? [last] : items.slice(known + 1).filter(isNews).slice(-3);
    for (const item of fresh) if (item) say(shown(item.text.slice(0, 600)));
    heard.current = last?.key;
  }, [last?.key]);
  useEffect(() => {
    if (STANDING[state]) say(STANDING[state]);
  }, [state]);
  useEffect(() => {
    if (asked) say(`${mayAnswer ? "A question waits for you" : "A question waits"}: ${shown(asked.text ?? "").slice(0, 400)}. Press q to go to it.`);
  }, [asked && nameOf(asked)]);
  return html`
    <div class="visually-hidden" role="log" aria-live="polite" aria-label="News of this conversation">
      ${news.told.map(({ key, text }) => html`<p key=${key}>${text}</p>`)}
    </div>`;
}
