// What the conversation has changed in files: in one turn or in all, in one column or two.

import { html, useEffect, useState } from "../preact.js";
import { conversationUrl, get, query } from "../net/api.js";
import { below, parseDiff } from "../text/diff.js";
import { clock, many } from "../text/format.js";
import { oneLine } from "../text/visible.js";
import { DiffFiles } from "./diff_view.js";
import { useKeys } from "./keys.js";
import { conversationPath, go } from "./route.js";

const NARROW = 900;

export function ChangesView({ conversation, turn }) {
  const { id, row, state } = conversation;
  const [layout, setLayout] = useState(innerWidth < NARROW ? "unified" : "split");
  const [found, setFound] = useState({ files: null, error: null });
  useKeys({ u: () => setLayout(layout === "split" ? "unified" : "split") });
  useEffect(() => {
    let current = true;
    get(conversationUrl(id, `/diff${query({ turn })}`))
      .then((answer) => current && setFound({ files: filesOf(answer, row.folder), error: null }))
      .catch((error) => current && setFound({ files: null, error }));
    return () => { current = false; };
  }, [id, turn, state]); // a turn that ends may have changed more
  const turns = conversation.items.filter((item) => item.kind === "user");
  return html`
    <section class="changes" aria-label="Changes">
      <h2 class="visually-hidden">Changes</h2>
      <div class="changes-bar">
        <label class="visually-hidden" for="scope">Changes of</label>
        <select id="scope" value=${turn ?? ""} onChange=${(event) => go(conversationPath(id, `/changes${event.target.value ? `?turn=${encodeURIComponent(event.target.value)}` : ""}`))}>
          <option value="">The whole conversation</option>
          ${turn && !turns.some((item) => item.turn === turn) && html`<option value=${turn}>One turn</option>`}
          ${turns.map((item) => html`<option key=${item.key} value=${item.turn}>${clock(item.at)} ${oneLine(item.text).slice(0, 60)}</option>`)}
        </select>
        <div class="layouts" role="group" aria-label="Layout">
          <button type="button" aria-pressed=${layout === "unified"} onClick=${() => setLayout("unified")}>Unified</button>
          <button type="button" aria-pressed=${layout === "split"} onClick=${() => setLayout("split")}>Side by side</button>
        </div>
        <${Totals} files=${found.files} />
      </div>
      <${Found} ...${found} layout=${layout} />
    </section>`;
}

const filesOf = ({ diff }, folder) => parseDiff(diff).map((file) => ({ ...file, path: below(folder, file.path), from: file.from && below(folder, file.from) }));

function Totals({ files }) {
  if (!files?.length) return null;
  const sum = (name) => files.reduce((total, file) => total + file[name], 0);
  return html`<span class="counts">${many(files.length, "file")} <span class="plus">+${sum("added")}</span> <span class="minus">−${sum("removed")}</span></span>`;
}

function Found({ files, error, layout }) {
  if (error) return html`<p class="empty">${error.message}</p>`;
  if (!files) return html`<p class="empty" role="status">Loading …</p>`;
  if (!files.length) return html`<p class="empty">No files were changed.</p>`;
  return html`<${DiffFiles} files=${files} layout=${layout} unfolded=${files.length <= 20} />`;
}
