// A question to the person: exactly what would be done, why it asks, and what a yes lifts. What the model says of it comes last.

import { html, useEffect, useRef, useState } from "../preact.js";
import { filesOfChanges } from "../text/diff.js";
import { fullTime } from "../text/format.js";
import { exact, shown } from "../text/visible.js";
import { nameOf } from "../state/questions.js";
import { DiffFiles } from "./diff_view.js";
import { InputForm } from "./input_form.js";
import { CommandLine } from "./items.js";
import { Path } from "./inert.js";

const TITLES = { command: "Run this command?", patch: "Change these files?", tool: "Call this tool?", budget: "Raise the limit?", hook: "A hook keeps this back. Let it happen?", user_input: "The model asks" };
const SETTLES = 350; // milliseconds in which a new question takes no answer: it may have come up under a hand that meant something else

export function QuestionPanel({ questions, folder, mayAnswer, mayRaise }) {
  const box = useRef(null);
  const isMoreBelow = useMoreBelow(box, questions.open);
  if (!questions.open.length) return null;
  return html`
    <section class="questions" aria-label="Questions for you" ref=${box}>
      ${questions.open.slice(0, 3).map((question) => html`<${QuestionCard} key=${nameOf(question)} question=${question} questions=${questions} folder=${folder} mayAnswer=${mayAnswer} mayRaise=${mayRaise} />`)}
      ${questions.open.length > 3 && html`<p class="note quiet">${questions.open.length - 3} more after these.</p>`}
      ${isMoreBelow && html`<button type="button" class="button to-answers" onClick=${() => box.current.scrollBy({ top: box.current.clientHeight * 0.8 })}>Read on ↓</button>`}
    </section>`;
}

/** Whether a question goes on below what is in sight. Its answers come last, so who sees them has had the rest before their eyes. */
function useMoreBelow(box, open) {
  const [isMore, setMore] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const look = () => setMore(element.scrollHeight - element.scrollTop - element.clientHeight > 24);
    const observer = new ResizeObserver(look);
    observer.observe(element);
    for (const part of element.querySelectorAll(".question")) observer.observe(part);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [open]);
  return isMore;
}

function QuestionCard({ question, questions, folder, mayAnswer, mayRaise }) {
  const [denying, setDenying] = useState(false);
  const [word, setWord] = useState("");
  const [settled, setSettled] = useState(false);
  const card = useRef(null);
  const field = useRef(null);
  const hadFocus = useRef(false);
  useEffect(() => () => { // who goes on by keyboard goes on here; not at the next question, which a second key would answer
    const { activeElement, body } = document;
    if (card.current?.contains(activeElement) || (hadFocus.current && activeElement === body)) document.querySelector(".timeline")?.focus();
  }, []);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLES);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    if (!denying) return;
    field.current.focus();
    field.current.form.scrollIntoView({ block: "nearest" }); // it is higher than the buttons in whose place it comes
  }, [denying]);
  const goBack = () => {
    setDenying(false);
    card.current.focus({ preventScroll: true });
  };
  const busy = !settled || questions.answering.has(nameOf(question));
  const decide = (decision, message = "") => {
    if (busy) return;
    hadFocus.current = true; // it may leave a button that is disabled now
    questions.decide(question, decision, message);
  };
  const mayAgree = question.kind !== "budget" || mayRaise;
  const choices = question.choices.filter(({ decision }) => mayAgree || !decision.startsWith("approved"));
  const offered = new Map(choices.map((choice) => [choice.decision, choice.label]));
  const isInput = question.kind === "user_input";
  const canSay = question.kind !== "budget";
  const deny = () => (canSay ? setDenying(true) : decide("denied"));
  const keys = { a: () => offered.has("approved") && decide("approved"), s: () => offered.has("approved_for_session") && decide("approved_for_session"), d: deny, x: () => offered.has("abort") && decide("abort") };
  const pressed = (event) => {
    if (event.key === "Escape" && denying) {
      event.stopPropagation();
      goBack();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName) || !keys[event.key] || !mayAnswer) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  };
  const submit = (event) => {
    event.preventDefault();
    decide("denied", word.trim());
  };
  const title = TITLES[question.kind] ?? "May it?";
  return html`
    <article class="question" ref=${card} tabindex="-1" aria-label=${title} onKeyDown=${pressed} data-call=${question.call_id}>
      <h2>${title}</h2>
      <${Exactly} question=${question} folder=${folder} />
      <dl class="because">
        ${question.why && html`<div><dt>Why it asks</dt><dd>${shown(question.why)}</dd></div>`}
        ${question.lifts && !isInput && html`<div><dt>What a yes lifts</dt><dd>${shown(question.lifts)}</dd></div>`}
        ${question.expires_at && html`<div><dt>Time</dt><dd>It is denied at ${fullTime(question.expires_at)} unless somebody answers.</dd></div>`}
      </dl>
      ${mayAnswer && isInput && html`<${InputForm} question=${question} busy=${busy} onAnswer=${(answers) => { hadFocus.current = true; questions.answer(question, answers); }} />`}
      ${question.kind !== "budget" && !isInput && html`<details class="full-text"><summary>The question in full</summary><pre>${shown(question.text ?? "")}</pre></details>`}
      ${!mayAnswer && html`<p class="note quiet">You may watch this conversation, but not answer for it.</p>`}
      ${mayAnswer && !mayAgree && html`<p class="note quiet">You may stop this turn, but not raise its limit.</p>`}
      ${mayAnswer && !denying && html`
        <div class="buttons answers">
          ${offered.has("approved") && html`<button type="button" class="button primary" disabled=${busy} title=${offered.get("approved")} onClick=${() => decide("approved")}>${question.kind === "budget" ? "Raise it" : "Approve"}</button>`}
          ${offered.has("approved_for_session") && html`<button type="button" class="button" disabled=${busy} title=${offered.get("approved_for_session")} onClick=${() => decide("approved_for_session")}>For the session</button>`}
          ${offered.has("denied") && html`<button type="button" class="button" disabled=${busy} onClick=${deny}>${isInput ? "Do not answer …" : canSay ? "Deny …" : "Stop the turn"}</button>`}
          ${offered.has("abort") && html`<button type="button" class="button danger" disabled=${busy} title=${offered.get("abort")} onClick=${() => decide("abort")}>Stop</button>`}
        </div>`}
      ${mayAnswer && denying && html`
        <form class="deny" onSubmit=${submit}>
          <label class="field"><span>A word to the model (optional)</span>
            <input ref=${field} type="text" value=${word} maxlength="2000" placeholder="What should it do instead?" onInput=${(event) => setWord(event.target.value)} />
          </label>
          <div class="buttons">
            <button type="submit" class="button danger" disabled=${busy}>${isInput ? "Do not answer" : "Deny"}</button>
            <button type="button" class="button" onClick=${goBack}>Back</button>
          </div>
        </form>`}
    </article>`;
}

function Exactly({ question, folder }) {
  if (question.kind === "user_input") return null; // its form has all of it
  if (question.command) {
    return html`
      <div class="exactly"><${CommandLine} argv=${question.command} isWhole=${true} /></div>
      <p class="in-folder">in <${Path} path=${question.folder} /></p>`;
  }
  if (question.changes) {
    const files = filesOfChanges(question.changes, folder);
    return html`<div class="exactly patch-of-question"><${DiffFiles} files=${files} layout="unified" unfolded=${true} /></div>`;
  }
  if (question.hook) {
    return html`<div class="exactly"><code dir="ltr">${exact(question.tool ?? "message")}</code><pre dir="ltr">${exact(question.shown ?? "")}</pre></div>`;
  }
  if (question.tool) {
    return html`<div class="exactly"><code dir="ltr">${exact(`${question.server}.${question.tool}`)}</code><pre dir="ltr">${exact(JSON.stringify(question.arguments ?? {}, null, 2))}</pre></div>`;
  }
  return html`<p class="exactly">${shown(question.text ?? "")}</p>`;
}

/** Bring the first question into view and into focus. */
export function goToQuestion() {
  const card = document.querySelector(".question");
  card?.scrollIntoView({ block: "nearest" });
  card?.focus();
  return card !== null;
}
