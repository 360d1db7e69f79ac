// Start a conversation: what to do, where, with which model, and what it may do without asking.

import { html, useEffect, useRef, useState } from "../preact.js";
import { get, post } from "../net/api.js";
import { attempt } from "../state/notices.js";
import { exact } from "../text/visible.js";
import { conversationPath, go } from "./route.js";

const POLICIES = {
  "on-request": "when the model wants to leave the sandbox",
  untrusted: "before each command that is not known to be harmless",
  "on-failure": "when something fails in the sandbox",
  never: "never",
};
const SANDBOXES = {
  "read-only": "read files only",
  "workspace-write": "write in its folder",
  "danger-full-access": "everything your account may (no sandbox)",
};

let draft = ""; // kept while the page is open, so that a look at something else costs nothing

export function NewView({ list }) {
  const [me, setMe] = useState(null);
  const [busy, setBusy] = useState(false);
  const [prompt, setPrompt] = useState(draft);
  const write = (text) => {
    draft = text;
    setPrompt(text);
  };
  const field = useRef(null);
  useEffect(() => {
    attempt(() => get("v1/me")).then((found) => found && setMe(found));
    field.current?.focus();
  }, []);
  const start = async (event) => {
    event.preventDefault();
    if (busy || !prompt.trim()) return;
    const chosen = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value !== ""));
    setBusy(true);
    const row = await attempt(() => post("v1/conversations", { ...chosen, prompt }));
    setBusy(false);
    if (!row) return;
    draft = "";
    list.take(row);
    go(conversationPath(row.id));
  };
  const pressed = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
  };
  const folders = [...new Set([...(me?.roots ?? []), ...(me?.folders ?? []), ...list.folders])];
  return html`
    <div class="new">
      <header class="head"><div class="head-top"><a class="icon-button back" href="#/" aria-label="Back to the list">‹</a><h1>New conversation</h1></div></header>
      <form class="new-form" onSubmit=${start}>
        <label class="field"><span>What should be done?</span>
          <textarea ref=${field} rows="6" value=${prompt} required onInput=${(event) => write(event.target.value)} onKeyDown=${pressed}></textarea>
        </label>
        <${Folder} me=${me} folders=${folders} />
        <div class="field-row">
          <label class="field"><span>Model</span>
            <input name="model" list="models" placeholder=${me?.models?.[0] ?? "as configured"} autocomplete="off" />
          </label>
          <${Choice} name="approval_policy" label="Ask me" options=${me?.approval_policies ?? Object.keys(POLICIES)} words=${POLICIES} />
          <${Choice} name="sandbox" label="Commands may" options=${me?.sandbox_modes ?? []} words=${SANDBOXES} />
        </div>
        <datalist id="models">${(me?.models ?? []).map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
        <div class="buttons"><button type="submit" class="button primary" disabled=${busy || !prompt.trim()}>Start</button></div>
      </form>
    </div>`;
}

/** Where the caller is kept to some folders, it begins in one of them and may be led below it. */
function Folder({ me, folders }) {
  const roots = me?.roots;
  return html`
    <label class="field"><span>Folder</span>
      <input name="folder" list="folders" required=${Boolean(roots)} placeholder=${roots ? "one of your folders, or below" : "where the server was started"} value=${roots?.length === 1 ? roots[0] : undefined} autocomplete="off" spellcheck=${false} />
    </label>
    <datalist id="folders">${folders.map((path) => html`<option key=${path} value=${path}></option>`)}</datalist>
    ${roots && html`<p class="hint">Allowed: ${roots.map((path) => exact(path)).join(", ")}</p>`}`;
}

function Choice({ name, label, options, words }) {
  return html`
    <label class="field"><span>${label}</span>
      <select name=${name}>
        <option value="">as configured</option>
        ${options.map((value) => html`<option key=${value} value=${value}>${words[value] ?? value}</option>`)}
      </select>
    </label>`;
}
