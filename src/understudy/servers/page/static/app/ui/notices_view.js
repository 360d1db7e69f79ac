// Notices, and the region that screen readers listen to.

import { html } from "../preact.js";
import { notices } from "../state/notices.js";
import { useObserved } from "../state/observed.js";
import { shown } from "../text/visible.js";

export function NoticesView() {
  const { all } = useObserved(notices);
  return html`
    <div class="notices" role="status" aria-live="polite" aria-label="Notices">
      ${all.map(({ key, text, tone }) => html`
        <div key=${key} class="notice ${tone}">
          <span>${shown(text)}</span>
          <button type="button" class="icon-button" aria-label="Dismiss this notice" onClick=${() => notices.dismiss(key)}>×</button>
        </div>`)}
    </div>`;
}
