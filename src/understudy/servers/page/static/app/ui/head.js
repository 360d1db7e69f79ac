// The head of a conversation: what it is, how it stands, who watches, and what can be done with it.

import { html, useEffect, useRef, useState } from "../preact.js";
import { conversationUrl } from "../net/api.js";
import { many } from "../text/format.js";
import { oneLine } from "../text/visible.js";
import { Line, Path } from "./inert.js";
import { StateMark, Usage } from "./list_view.js";
import { conversationPath, loginPath } from "./route.js";

export function Head({ conversation, actions, inChanges, mayRun }) {
  const { row } = conversation;
  return html`
    <header class="head">
      <div class="head-top">
        <a class="icon-button back" href="#/" aria-label="Back to the list">‹</a>
        <h1 title=${oneLine(row.title)}><${Line} text=${row.title || "Untitled"} /></h1>
        <div class="views" role="group" aria-label="View">
          <a href=${conversationPath(row.id)} aria-current=${inChanges ? undefined : "page"}>Conversation</a>
          <a href=${conversationPath(row.id, "/changes")} aria-current=${inChanges ? "page" : undefined}>Changes</a>
        </div>
        <${More} row=${row} actions=${actions} mayRun=${mayRun} />
      </div>
      <div class="head-facts">
        <${StateMark} state=${conversation.state} />
        <${Path} path=${row.folder} />
        <span class="model"><${Line} text=${row.model} /></span>
        <${Usage} row=${row} />
        <${Viewers} names=${row.viewers ?? []} />
        ${row.queued > 0 && html`<span>${many(row.queued, "message")} queued</span>`}
        ${row.archived && html`<span>archived</span>`}
        ${conversation.connection === "signed-out" && html`<span class="connection lost" role="status">Signed out. <a href=${loginPath()}>Log in</a></span>`}
        ${conversation.connection === "lost" && html`<span class="connection lost" role="status">Connection lost; trying again …</span>`}
      </div>
    </header>`;
}

function Viewers({ names }) {
  if (names.length < 2) return null; // one is whoever reads this
  const list = names.map(oneLine).join(", ");
  return html`<span class="viewers" title=${`Watching: ${list}`} aria-label=${`${many(names.length, "viewer")}: ${list}`}>${names.length}${names.length < 100 ? "" : "+"} watching</span>`;
}

function More({ row, actions, mayRun }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    const outside = (event) => !box.current.contains(event.target) && setOpen(false);
    addEventListener("pointerdown", outside);
    box.current.querySelector(".menu button, .menu a")?.focus();
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const pressed = (event) => {
    const entries = [...box.current.querySelectorAll(".menu button, .menu a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && open) {
      setOpen(false);
      box.current.querySelector("#more-actions").focus();
    } else if (step && open) entries[(entries.indexOf(document.activeElement) + step + entries.length) % entries.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const entry = (label, act, extra = "") => html`<button type="button" class=${extra} onClick=${() => { setOpen(false); act(); }}>${label}</button>`;
  const download = (label, format) => html`<a href=${conversationUrl(row.id, `/export?format=${format}`)} download onClick=${() => setOpen(false)}>${label}</a>`;
  return html`
    <div class="more-box" ref=${box} onKeyDown=${pressed}>
      <button type="button" id="more-actions" class="icon-button" aria-label="More actions" aria-expanded=${open} onClick=${() => setOpen(!open)}>⋯</button>
      ${open && html`
        <div class="menu" role="group" aria-label="Actions">
          ${mayRun && entry("Rename", () => actions.rename())}
          ${mayRun && entry("Fork", () => actions.fork())}
          ${mayRun && entry("Compact", () => actions.compact())}
          ${mayRun && entry("Undo the last turn", () => actions.undo())}
          ${download("Export as Markdown", "markdown")}
          ${download("Export as JSON", "json")}
          ${mayRun && entry(row.archived ? "Take out of the archive" : "Archive", () => actions.archive())}
          ${mayRun && entry("Delete …", () => actions.remove(), "danger")}
        </div>`}
    </div>`;
}
