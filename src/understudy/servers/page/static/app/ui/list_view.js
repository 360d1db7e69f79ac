// The list of conversations beside the one that is open: search, filters, those that wait for the person first.

import { html, useEffect, useRef, useState } from "../preact.js";
import { me } from "../state/me.js";
import { attempt } from "../state/notices.js";
import { useObserved } from "../state/observed.js";
import { ago, count, dollars, fullTime, many, shortPath } from "../text/format.js";
import { exactLine, oneLine } from "../text/visible.js";
import { Attention } from "./attention.js";
import { FoundView } from "./found_view.js";
import { Line } from "./inert.js";
import { conversationPath, loginPath } from "./route.js";

export const STATES = { waiting: "waiting for you", working: "working", idle: "idle", failed: "failed", interrupted: "stopped" };

export function ListView({ list, current, isAlone }) {
  useObserved(list);
  useObserved(me);
  const { rows } = list;
  const waiting = rows.filter((row) => row.state === "waiting");
  const others = rows.filter((row) => row.state !== "waiting");
  return html`
    <nav class="sidebar" aria-label="Conversations">
      <header class="sidebar-head">
        <${isAlone ? "h1" : "div"} class="brand-line"><a class="brand" href="#/"><img src="page/icon.svg" alt="" width="22" height="22" /> Understudy</a><//>
        ${me.mayRun && html`<a class="button primary" href="#/new">New</a>`}
      </header>
      <${Filters} list=${list} />
      <div class="rows" data-testid="rows">
        ${waiting.length > 0 && html`
          <section aria-label="Waiting for you">
            <h2 class="rows-title">Waiting for you</h2>
            <ul>${waiting.map((row) => html`<${Row} key=${row.id} row=${row} current=${current} />`)}</ul>
          </section>`}
        <section aria-label="Other conversations">
          ${waiting.length > 0 && others.length > 0 && html`<h2 class="rows-title">Others</h2>`}
          <ul>${others.map((row) => html`<${Row} key=${row.id} row=${row} current=${current} />`)}</ul>
        </section>
        <${Emptiness} list=${list} />
        ${list.nextCursor && html`<button type="button" class="button more" onClick=${() => attempt(() => list.loadMore())}>Show more</button>`}
        <${FoundView} list=${list} />
      </div>
      <${Attention} list=${list} />
    </nav>`;
}

function Emptiness({ list }) {
  if (!list.loaded) return html`<p class="empty">Loading …</p>`;
  if (list.failure) {
    const way = list.failure.status === 401 && html` <a href=${loginPath()}>Log in</a>`;
    return html`<p class="empty">${list.failure.message}${way}</p>`;
  }
  if (list.rows.length) return null;
  const { search, state, folder, archived } = list.filter;
  return search || state || folder || archived
    ? html`<p class="empty">No conversation fits.</p>`
    : html`<p class="empty">No conversations yet.${me.mayRun && html` <a href="#/new">Start one</a>.`}</p>`;
}

function Filters({ list }) {
  const { search, state, folder, archived } = list.filter;
  const folders = [...new Set([...list.folders, folder])].filter(Boolean).sort();
  return html`
    <search class="filters">
      <label class="visually-hidden" for="search">Search conversations</label>
      <input id="search" type="search" placeholder="Search" value=${search} autocomplete="off"
        onInput=${(event) => list.choose({ search: event.target.value })} />
      <div class="filter-row">
        <label class="visually-hidden" for="state">Filter by state</label>
        <select id="state" value=${archived ? "archived" : state}
          onChange=${(event) => list.choose(event.target.value === "archived" ? { state: "", archived: true } : { state: event.target.value, archived: false })}>
          <option value="">Any state</option>
          ${Object.entries(STATES).map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}
          <option value="archived">archived</option>
        </select>
        <label class="visually-hidden" for="folder">Filter by folder</label>
        <select id="folder" value=${folder} onChange=${(event) => list.choose({ folder: event.target.value })}>
          <option value="">Any folder</option>
          ${folders.map((path) => html`<option key=${path} value=${path}>${oneLine(shortPath(path))}</option>`)}
        </select>
      </div>
    </search>`;
}

function Row({ row, current }) {
  const isCurrent = row.id === current;
  return html`
    <li>
      <a class="row is-${oneLine(row.state)}" href=${conversationPath(row.id)} aria-current=${isCurrent ? "page" : undefined} data-id=${row.id}>
        <span class="row-title"><${Line} text=${row.title || "Untitled"} /></span>
        <span class="row-facts">
          <${StateMark} state=${row.state} />
          <bdi class="path row-folder" title=${exactLine(row.folder)}>${exactLine(shortPath(row.folder))}</bdi>
          <time title=${fullTime(row.updated)}><${Since} time=${row.updated} /></time>
        </span>
        ${row.state === "waiting" && html`<span class="row-asks"><${Line} text=${asks(row)} /></span>`}
      </a>
    </li>`;
}

function asks(row) {
  const first = row.waiting?.[0];
  if (!first) return "asks for your decision";
  if (first.command_line) return first.command_line;
  if (first.changes) return `change ${many(Object.keys(first.changes).length, "file")}`;
  return first.tool ? `${first.server}.${first.tool}` : first.text ?? "asks for your decision";
}

/** Renders by itself as time goes by. */
function Since({ time }) {
  const [, again] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => again((number) => number + 1), 30_000);
    return () => clearInterval(timer);
  }, []);
  return ago(time);
}

export function StateMark({ state }) {
  return html`<span class="state ${state}"><span class="dot" aria-hidden="true"></span>${STATES[state] ?? oneLine(state)}</span>`;
}

export function Usage({ row }) {
  const tokens = typeof row.tokens === "number" ? row.tokens : row.tokens?.total;
  if (!tokens) return null;
  const cost = dollars(row.cost_usd);
  return html`<span class="usage" title="Tokens used${cost ? " and what they cost" : ""}">${count(tokens)} tokens${cost && ` · ${cost}`}</span>`;
}

/** The rows by keyboard: `step` moves the focus along the list. */
export function useListKeys() {
  const last = useRef(null);
  return (step) => {
    const rows = [...document.querySelectorAll(".rows a.row")];
    if (!rows.length) return;
    const focused = rows.indexOf(document.activeElement);
    const known = focused >= 0 ? focused : rows.findIndex((row) => row.dataset.id === last.current);
    const start = known >= 0 ? known : rows.findIndex((row) => row.ariaCurrent === "page");
    const next = rows[Math.min(rows.length - 1, Math.max(0, start + step))];
    last.current = next.dataset.id;
    next.focus();
  };
}
