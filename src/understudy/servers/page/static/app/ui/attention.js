// Getting the person's attention where a conversation waits for them: the title of the tab, and a notification if they allow it.

import { html, useEffect, useRef, useState } from "../preact.js";
import { post } from "../net/api.js";
import { me } from "../state/me.js";
import { attempt } from "../state/notices.js";
import { useObserved } from "../state/observed.js";
import { oneLine } from "../text/visible.js";
import { Line } from "./inert.js";
import { followFromAfar, notifyByWorker } from "./notifying_worker.js";
import { conversationPath, go, loginPath } from "./route.js";

const NAME = "Understudy";

export function Attention({ list }) {
  useObserved(list);
  const { waiting } = list;
  const known = useRef(null);
  useEffect(() => {
    const ids = new Set(waiting.map(questionKey));
    if (known.current) for (const row of waiting) if (!known.current.has(questionKey(row))) notify(row);
    if (list.loaded) known.current = ids;
  });
  return html`
    <footer class="sidebar-foot">
      <${Connection} state=${list.connection} />
      <span class="foot-actions"><${AllowNotifications} /><${LogOut} state=${list.connection} /></span>
    </footer>`;
}

const questionKey = (row) => `${row.id} ${(row.waiting ?? []).map((question) => question.call_id).join(" ")}`;

/** The title of the tab says how many wait, then what is open. */
export function useTitle(list, title) {
  useEffect(() => {
    const number = list.waiting.length;
    document.title = [number ? `(${number}) waiting` : "", oneLine(title || ""), NAME].filter(Boolean).join(" · ");
  });
}

function Connection({ state }) {
  if (state === "live") return html`<span class="connection">Connected<${As} /></span>`;
  if (state === "signed-out") return html`<span class="connection lost">Signed out. <a href=${loginPath()}>Log in</a></span>`;
  return html`<span class="connection lost" role="status">${state === "lost" ? "Connection lost; trying again …" : "Connecting …"}</span>`;
}

/** Who that is, unless it is whoever runs the server. */
function As() {
  const { name } = useObserved(me);
  return name && name !== "local" ? html` as <${Line} text=${name} />` : null;
}

/** From every tab of this browser, and for good: the cookie is worth nothing afterwards. */
function LogOut({ state }) {
  if (state === "signed-out") return null;
  const leave = async () => (await attempt(() => post("logout"))) !== null && location.assign("login");
  return html`<button type="button" class="link-button" onClick=${leave}>Log out</button>`;
}

function AllowNotifications() {
  const offered = typeof Notification !== "undefined";
  const [permission, setPermission] = useState(offered ? Notification.permission : "denied");
  useEffect(() => {
    if (permission === "granted") followFromAfar();
  }, [permission]);
  if (permission !== "default") return null;
  return html`<button type="button" class="link-button" onClick=${async () => setPermission(await Notification.requestPermission())}>Notify me</button>`;
}

function notify(row) {
  if (typeof Notification === "undefined" || Notification.permission !== "granted") return;
  if (document.visibilityState === "visible" && document.hasFocus()) return;
  const title = `${NAME} waits for you`;
  const place = conversationPath(row.id);
  const options = { body: oneLine(row.title || "A conversation asks for your decision"), tag: row.id, icon: "page/icon-192.png", data: place };
  try {
    const notification = new Notification(title, options);
    notification.onclick = () => {
      window.focus();
      go(place);
      notification.close();
    };
  } catch {
    notifyByWorker(title, options); // on phones only a worker may
  }
}
