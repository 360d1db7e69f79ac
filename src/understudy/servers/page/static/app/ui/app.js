// The page as a whole: the list, and beside it what the address names.

import { html, useEffect, useState } from "../preact.js";
import { me } from "../state/me.js";
import { useObserved } from "../state/observed.js";
import { tell } from "../state/notices.js";
import { useTitle } from "./attention.js";
import { ConversationView } from "./conversation_view.js";
import { DialogHost } from "./dialogs.js";
import { help, useKeys } from "./keys.js";
import { ListView, useListKeys } from "./list_view.js";
import { NewView } from "./new_view.js";
import { NoticesView } from "./notices_view.js";
import { conversationPath, go, useRoute } from "./route.js";

export function App({ list }) {
  const route = useRoute();
  const [title, setTitle] = useState("");
  useObserved(list);
  useObserved(me);
  useTitle(list, route.view === "new" ? "New conversation" : route.id ? title : "");
  const isAlone = route.view === "list";
  const isNarrow = useNarrow();
  const step = useListKeys();
  const back = () => {
    if (route.view === "changes") go(conversationPath(route.id));
    else go("#/");
  };
  useKeys({
    "?": help,
    "/": () => document.getElementById("search")?.focus(),
    n: () => me.mayRun && go("#/new"),
    j: () => step(1),
    k: () => step(-1),
    w: () => nextWaiting(list, route.id),
    Escape: back,
  });
  return html`
    <div class="app" data-view=${route.view}>
      <a class="skip" href="#main" onClick=${skip}>Skip to the conversation</a>
      <div class="side" id="side" role=${isAlone && isNarrow ? "main" : null} tabindex="-1">
        <${ListView} list=${list} current=${route.id} isAlone=${isAlone} />
      </div>
      <main id="main" tabindex="-1">
        ${route.view === "new" && (me.mayRun ? html`<${NewView} list=${list} />` : html`<p class="empty">You may watch conversations, but not start one.</p>`)}
        ${route.id && html`<${ConversationView} key=${route.id} id=${route.id} route=${route} list=${list} onTitle=${setTitle} />`}
        ${route.view === "list" && html`<${Welcome} />`}
      </main>
      <${NoticesView} />
      <${DialogHost} />
    </div>`;
}

const NARROW = "(max-width: 760px)"; // as in list.css: one column at a time

/** Whether there is room for one column only. Then the list, while it is alone, is what the page is mainly about. */
function useNarrow() {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

/** The fragment belongs to the route, so the link moves only the focus. */
function skip(event) {
  event.preventDefault();
  (document.querySelector("#side[role=main]") ?? document.getElementById("main")).focus();
}

function nextWaiting(list, current) {
  const waiting = list.waiting.map((row) => row.id);
  const next = waiting[(waiting.indexOf(current) + 1) % waiting.length];
  if (next) go(conversationPath(next));
  else tell("Nothing waits for you.");
}

const Welcome = () => html`
  <div class="welcome">
    <img src="page/icon.svg" alt="" width="56" height="56" />
    <p>Choose a conversation${me.mayRun && html`, or <a href="#/new">start one</a>`}.</p>
    <p class="hint"><button type="button" class="link-button" onClick=${help}>Keys</button></p>
  </div>`;
