// Diffs, in one column or two. Long ones are shown in part until the person wants the rest.

import { html, useState } from "../preact.js";
import { sideBySide } from "../text/diff.js";
import { exactLine, shown } from "../text/visible.js";
import { Path } from "./inert.js";

const FIRST_ROWS = 300;
const MORE_ROWS = 2000;
const LONGEST_LINE = 20_000; // characters
const CHANGES = { add: "new", delete: "deleted", move: "moved", update: "" };
const MARKS = { added: "+", removed: "−", same: " ", note: " " };

/** @param {{files: import("../text/diff.js").File[], layout: "unified"|"split", unfolded?: boolean}} properties */
export function DiffFiles({ files, layout, unfolded = true }) {
  return html`<div class="diff-files">${files.map((file, index) => html`<${DiffFile} key=${`${index} ${file.path}`} file=${file} layout=${layout} unfolded=${unfolded} />`)}</div>`;
}

/** A new file has nothing to stand beside, and neither has a deleted one: half of the page would be empty. */
const hasTwoSides = ({ change }) => change !== "add" && change !== "delete";

function DiffFile({ file, layout, unfolded }) {
  const [choice, setChoice] = useState(null);
  const isOpen = choice ?? unfolded;
  return html`
    <section class="diff-file" aria-label="Changes of ${exactLine(file.path)}">
      <h3>
        <button type="button" class="fold file-name" aria-expanded=${isOpen} onClick=${() => setChoice(!isOpen)}>
          ${file.from && html`<${Path} path=${file.from} /> → `}<${Path} path=${file.path} />
          ${CHANGES[file.change] && html` <span class="change">${CHANGES[file.change]}</span>`}
          <span class="counts"><span class="plus">+${file.added}</span> <span class="minus">−${file.removed}</span></span>
        </button>
      </h3>
      ${isOpen && html`<${Hunks} file=${file} layout=${hasTwoSides(file) ? layout : "unified"} />`}
    </section>`;
}

function Hunks({ file, layout }) {
  const [limit, setLimit] = useState(FIRST_ROWS);
  let left = limit;
  const shownHunks = [];
  for (const hunk of file.hunks) {
    if (left <= 0) break;
    shownHunks.push({ ...hunk, rows: hunk.rows.slice(0, left) });
    left -= hunk.rows.length;
  }
  const total = file.hunks.reduce((sum, hunk) => sum + hunk.rows.length, 0);
  if (!total) return html`<p class="no-lines">No lines are different.</p>`;
  return html`
    <div class="diff-scroll" tabindex="0" role="group" aria-label="Lines of ${exactLine(file.path)}">
      <table class="diff ${layout}">
        ${shownHunks.map((hunk, index) => html`<tbody key=${index}>
          ${(index > 0 || hunk.heading) && html`<tr class="hunk"><td colspan=${layout === "split" ? 4 : 3}>${hunk.heading ? exactLine(hunk.heading) : "⋯"}</td></tr>`}
          ${layout === "split" ? sideBySide(hunk.rows).map(Pair) : hunk.rows.map(Single)}
        </tbody>`)}
      </table>
    </div>
    ${total > limit && html`<button type="button" class="button more" onClick=${() => setLimit(limit + MORE_ROWS)}>Show more of ${total} lines</button>`}`;
}

/** A line that is too long for the page says how much of it is missing. */
function lineText({ text }) {
  const more = text.length - LONGEST_LINE;
  return more > 0 ? `${shown(text.slice(0, LONGEST_LINE))} … (${more} more characters)` : shown(text);
}

function Single(row, index) {
  return html`<tr key=${index} class=${row.kind}>
    <td class="number">${row.old ?? ""}</td><td class="number">${row.new ?? ""}</td>
    <td class="line"><span class="mark" ...${row.kind === "same" ? {} : { role: "img", "aria-label": row.kind }}>${MARKS[row.kind]}</span><span dir="ltr">${lineText(row)}</span></td></tr>`;
}

function Pair({ left, right }, index) {
  return html`<tr key=${index}>
    <td class="number">${left?.old ?? ""}</td><td class="line ${left?.kind ?? "nothing"}" dir="ltr">${left ? lineText(left) : ""}</td>
    <td class="number">${right?.new ?? ""}</td><td class="line ${right?.kind ?? "nothing"}" dir="ltr">${right ? lineText(right) : ""}</td></tr>`;
}
