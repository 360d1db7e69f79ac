// One conversation: its head, its timeline or its changes, its questions, and where to write.

import { html, useEffect, useMemo, useState } from "../preact.js";
import { Conversation } from "../state/conversation.js";
import { useObserved } from "../state/observed.js";
import { actionsOf, mayOf } from "./actions.js";
import { Announcer } from "./announcer.js";
import { ChangesView } from "./changes_view.js";
import { Composer } from "./composer.js";
import { Head } from "./head.js";
import { useKeys } from "./keys.js";
import { QuestionPanel, goToQuestion } from "./question_card.js";
import { conversationPath, go, loginPath } from "./route.js";
import { Timeline } from "./timeline.js";

export function ConversationView({ id, route, list, onTitle }) {
  const conversation = useMemo(() => new Conversation(id), [id]);
  const actions = useMemo(() => actionsOf(conversation, list), [conversation]);
  const [unfolded, setUnfolded] = useState(false);
  useObserved(conversation);
  useObserved(list);
  useEffect(() => {
    conversation.open();
    const visibility = () => (document.visibilityState === "hidden" ? conversation.pause() : conversation.resume());
    document.addEventListener("visibilitychange", visibility);
    return () => {
      document.removeEventListener("visibilitychange", visibility);
      conversation.close();
    };
  }, [conversation]);

  const { row, failure } = conversation;
  const listed = list.row(id);
  useEffect(() => {
    if (listed && conversation.row) conversation.merge(listed);
  }, [listed]);
  useEffect(() => onTitle(row?.title ?? ""), [row?.title]);
  const inChanges = route.view === "changes";
  useKeys({
    c: () => document.getElementById("message")?.focus(),
    v: () => go(conversationPath(id, inChanges ? "" : "/changes")),
    o: () => setUnfolded(!unfolded),
    g: () => actions.toStart(),
    G: () => actions.toEnd(),
    r: () => actions.mayRun() && actions.rename(),
    m: () => document.getElementById("more-actions")?.click(),
    q: goToQuestion,
    X: () => actions.mayRun() && isBusy(conversation) && actions.interrupt(),
  });
  if (failure) return html`<${Failure} failure=${failure} wasThere=${conversation.loaded} />`;
  if (!row) return html`<div class="conversation"><p class="empty" role="status">${conversation.trouble?.message ?? "Loading …"}</p></div>`;
  const may = mayOf(row);
  return html`
    <div class="conversation">
      <${Head} conversation=${conversation} actions=${actions} inChanges=${inChanges} mayRun=${may.includes("run")} />
      ${inChanges
        ? html`<${ChangesView} conversation=${conversation} turn=${route.parameters.get("turn")} />`
        : html`<${Timeline} conversation=${conversation} actions=${actions} unfolded=${unfolded} />`}
      <${QuestionPanel} questions=${conversation.questions} folder=${row.folder} mayAnswer=${may.includes("approve")} mayRaise=${may.includes("budget")} />
      ${may.includes("run") && html`<${Composer} key=${id} id=${id} isWorking=${isBusy(conversation)} mayStop=${conversation.state === "working"} onStop=${() => actions.interrupt()} />`}
      <${Announcer} conversation=${conversation} mayAnswer=${may.includes("approve")} />
    </div>`;
}

const isBusy = ({ state }) => state === "working" || state === "waiting";

function Failure({ failure, wasThere }) {
  const missing = wasThere ? "This conversation was deleted, or is not yours to see any more." : "There is no such conversation, or it is not yours to see.";
  const words = failure.status === 404 ? missing : failure.message;
  const way = failure.status === 401 ? html`<a class="button primary" href=${loginPath()}>Log in</a>` : html`<a class="button" href="#/">To the list</a>`;
  return html`<div class="conversation"><div class="empty"><p>${words}</p><p>${way}</p></div></div>`;
}
