// The items of a timeline, one component for each kind.

import { html, useState } from "../preact.js";
import { filesOfChanges } from "../text/diff.js";
import { clock, fullTime, many, seconds } from "../text/format.js";
import { exact, quoted, scriptOf, shown } from "../text/visible.js";
import { me, whoIs } from "../state/me.js";
import { useObserved } from "../state/observed.js";
import { decisionWord } from "../state/questions.js";
import { DiffFiles } from "./diff_view.js";
import { Line, Path, Prose, Words } from "./inert.js";
import { Output } from "./output.js";

const LONG_COMMAND = 180; // characters

export function Item({ item, actions, unfolded }) {
  const Shown = KINDS[item.kind];
  return Shown ? html`<li class="item of-${item.kind}" data-key=${item.key}><${Shown} item=${item} actions=${actions} unfolded=${unfolded} /></li>` : null;
}

const Time = ({ at }) => html`<time class="at" title=${fullTime(at)}>${clock(at)}</time>`;

function UserMessage({ item, actions }) {
  useObserved(me);
  const who = actions.isMine() ? "You" : "User"; // a message does not say whose it is
  return html`
    <article class="user-message" aria-label="Message of ${who}">
      <header><strong><${Line} text=${who} /></strong> <${Time} at=${item.at} />
        ${actions.mayRun() && html`
          <span class="item-actions">
            <button type="button" class="link-button" onClick=${() => actions.fork(item)}>Fork from here</button>
            <button type="button" class="link-button" onClick=${() => actions.undo(item)}>Undo this turn</button>
          </span>`}
      </header>
      <${Words} text=${item.text} />
      <${Images} images=${item.images} />
    </article>`;
}

/** Pictures that the log has are had from the server. One that is elsewhere is named and not fetched. */
function Images({ images }) {
  if (!images?.length) return null;
  return html`<div class="images">${images.map(({ url, elsewhere }, index) => (url?.startsWith("/v1/conversations/")
    ? html`<a key=${index} href=${url.slice(1)} target="_blank" rel="noopener noreferrer"><img src=${url.slice(1)} alt="Image ${index + 1} of this message" loading="lazy" /></a>`
    : html`<span key=${index} class="image-name">image: <${Path} path=${String(elsewhere ?? "").slice(0, 200)} /></span>`))}</div>`;
}

const QueuedMessage = ({ item }) => html`<p class="note quiet">Queued: <${Words} text=${item.text} /></p>`;
const Pictures = ({ item }) => html`<${Images} images=${item.images} />`;

const AgentMessage = ({ item }) => html`<article class="agent-message" aria-label="Message of the agent"><${Prose} text=${item.text} />${item.isCut && html`<p class="note quiet">It was cut off here.</p>`}</article>`;

export function Folded({ label, children, open = false, class: extra = "" }) {
  const [isOpen, setOpen] = useState(open);
  return html`
    <div class="folded ${extra}">
      <button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${label}</button>
      ${isOpen && children}
    </div>`;
}

const Reasoning = ({ item }) => html`<${Folded} class="reasoning" label="Thoughts"><${Prose} text=${item.text} /><//>`;

/** `isWhole`: every word of it, as a question needs it; else the script is enough where a shell runs one. */
export function CommandLine({ argv, isWhole = false }) {
  const whole = exact(quoted(argv));
  const script = isWhole ? null : scriptOf(argv);
  const isLong = !isWhole && (whole.length > LONG_COMMAND || whole.split("\n").length > 5); // it scrolls, so it can be reached by keyboard
  return html`<code class="command-line" dir="ltr" title=${whole} tabindex=${isLong ? 0 : undefined}>${script === null ? whole : exact(script)}</code>`;
}

function Command({ item, actions, unfolded }) {
  const status = { running: "running", done: "done", failed: item.exitCode == null ? "failed" : `exit ${item.exitCode}` }[item.state];
  return html`
    <article class="command ${item.state}" aria-label="Command">
      <header>
        <${CommandLine} argv=${item.argv ?? ["(a command whose beginning is further up)"]} />
        <span class="facts">${item.isOutside && html`<span class="outside">outside the sandbox</span> `}<span class="outcome">${status}</span> ${seconds(item.duration)}</span>
      </header>
      ${item.state === "running" && html`<${RunningOutput} call=${item.callId} live=${actions.live} />`}
      <${Output} text=${item.output ?? ""} isFailed=${item.state === "failed"} unfolded=${unfolded} />
    </article>`;
}

/** What it has put out so far; the rest of the timeline stays as it is meanwhile. */
function RunningOutput({ call, live }) {
  useObserved(live);
  const text = live.output.get(call);
  return text ? html`<${Output} text=${text} isRunning=${true} />` : null;
}

function Patch({ item, actions, unfolded }) {
  const files = filesOfChanges(item.changes, actions.folder());
  const verb = { running: "Changing", done: "Changed", failed: "Could not change" }[item.state];
  return html`
    <article class="patch ${item.state}" aria-label="Patch">
      <header><span class="verb">${verb} ${many(files.length, "file")}</span></header>
      <${DiffFiles} files=${files} unfolded=${unfolded || files.length <= 3} layout="unified" />
      ${item.output && html`<${Output} text=${item.output} isFailed=${true} />`}
    </article>`;
}

function Tool({ item, unfolded }) {
  const result = item.result === undefined ? "" : resultText(item.result);
  return html`
    <article class="tool ${item.state}" aria-label="Tool call">
      <header>
        <code dir="ltr">${exact(item.server === "codex" ? String(item.tool) : `${item.server}.${item.tool}`)}</code>
        <span class="arguments">${exact(brief(item.arguments))}</span>
        <span class="facts"><span class="outcome">${item.state === "done" ? "" : item.state}</span> ${seconds(item.duration)}</span>
      </header>
      <${Output} text=${result} isFailed=${item.state === "failed"} unfolded=${unfolded} />
    </article>`;
}

function brief(value) {
  const text = value == null ? "" : Object.entries(value).map(([name, given]) => (typeof given === "string" ? given : `${name}=${JSON.stringify(given)}`)).join(" ");
  return text.length > 160 ? `${text.slice(0, 159)}…` : text;
}

function resultText(result) {
  const content = result.Ok?.content ?? result.Err ?? result.Ok ?? result;
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map((part) => part.text ?? JSON.stringify(part)).join("\n");
  return JSON.stringify(content, null, 2);
}

const STEP = { completed: ["✓", "done"], in_progress: ["▸", "in progress"], pending: ["○", "to do"] };

function Plan({ item }) {
  return html`
    <article class="plan" aria-label="Plan">
      ${item.explanation && html`<p><${Words} text=${item.explanation} /></p>`}
      <ul>${item.steps.map((step, index) => {
        const [mark, words] = STEP[step.status] ?? STEP.pending;
        return html`<li key=${index} class=${step.status in STEP ? step.status : "pending"}><span class="mark" aria-hidden="true">${mark}</span><${Words} text=${step.step} /><span class="visually-hidden"> (${words})</span></li>`;
      })}</ul>
    </article>`;
}

function AskedQuestion({ item }) {
  useObserved(me);
  const about = item.ask === "command" ? html`<${CommandLine} argv=${item.argv ?? []} />` : item.ask === "patch" ? `a change of ${many(Object.keys(item.changes ?? {}).length, "file")}` : html`<${Line} text=${item.text ?? ""} />`;
  const outcome = item.decision ? `${decisionWord(item.decision)}${item.decidedBy ? ` by ${whoIs(item.decidedBy)}` : ""}` : "asked";
  return html`
    <p class="asked"><span class="outcome ${item.decision ?? ""}">${shown(outcome)}</span> ${about}
      ${item.word && html`<span class="word">“<${Line} text=${item.word} />”</span>`}</p>`;
}

function TurnDiff({ item, actions }) {
  return html`<p class="turn-diff"><button type="button" class="link-button" onClick=${() => actions.showChanges(item.turn)}>Changes of this turn</button></p>`;
}

const Note = ({ item }) => html`<p class="note ${item.tone}"><${Words} text=${item.text} /></p>`;

const KINDS = {
  user: UserMessage,
  queued: QueuedMessage,
  pictures: Pictures,
  agent: AgentMessage,
  reasoning: Reasoning,
  command: Command,
  patch: Patch,
  tool: Tool,
  plan: Plan,
  question: AskedQuestion,
  "turn-diff": TurnDiff,
  note: Note,
};
