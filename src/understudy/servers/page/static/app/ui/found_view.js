// What the search field finds in the texts of all conversations, below those whose titles fit.

import { html, useEffect, useMemo } from "../preact.js";
import { Found } from "../state/found.js";
import { useObserved } from "../state/observed.js";
import { ago, fullTime } from "../text/format.js";
import { oneLine } from "../text/visible.js";
import { Line } from "./inert.js";
import { conversationPath } from "./route.js";

export function FoundView({ list }) {
  const found = useMemo(() => new Found(), []);
  useObserved(found);
  const { search, folder } = list.filter;
  const words = search.trim();
  useEffect(() => found.look(words, folder), [words, folder]);
  if (!words || !found.looked) return null;
  return html`
    <section aria-label="In what was said and run" data-testid="found">
      <h2 class="rows-title">In what was said and run</h2>
      <ul>${found.hits.map((hit) => html`<${Hit} key=${`${hit.conversation_id} ${hit.seq}`} hit=${hit} list=${list} />`)}</ul>
      ${found.failure
        ? html`<p class="empty">${found.failure.message}</p>`
        : !found.hits.length && html`<p class="empty">Nothing found.</p>`}
      ${found.next && html`<button type="button" class="button more" onClick=${() => found.more()}>Show more</button>`}
    </section>`;
}

function Hit({ hit, list }) {
  const title = list.row(hit.conversation_id)?.title || hit.conversation_id.slice(0, 8);
  return html`
    <li>
      <a class="hit" href=${conversationPath(hit.conversation_id)}>
        <span class="hit-text"><${Line} text=${hit.snippet} /></span>
        <span class="row-facts"><span>${oneLine(hit.role)}</span><bdi class="row-folder">${oneLine(title)}</bdi><time title=${fullTime(hit.time)}>${ago(hit.time)}</time></span>
      </a>
    </li>`;
}
