// What a person can do with a conversation besides writing. Each tells how it went; what happened comes as events, to all tabs alike.

import { conversationUrl, post, remove } from "../net/api.js";
import { me } from "../state/me.js";
import { attempt, tell } from "../state/notices.js";
import { askText, confirm } from "./dialogs.js";
import { conversationPath, go } from "./route.js";

/** What the reader may do with a conversation. */
export const mayOf = (row) => row?.may ?? ["run", "approve", "read", "budget"];

/** @param {import("../state/conversation.js").Conversation} conversation @param {import("../state/list.js").ConversationList} list */
export function actionsOf(conversation, list) {
  const { id } = conversation;
  const url = (rest) => conversationUrl(id, rest);
  const title = () => conversation.row?.title ?? "";

  return {
    live: conversation.live,
    folder: () => conversation.row?.folder ?? "",
    isMine: () => !me.name || (conversation.row?.owner ?? me.name) === me.name,
    mayRun: () => mayOf(conversation.row).includes("run"),
    async rename() {
      const chosen = await askText("Rename", "Title", title());
      if (!chosen || chosen === title()) return;
      if (await attempt(() => post(url("/rename"), { title: chosen }))) conversation.update({ title: chosen });
    },
    interrupt: () => attempt(() => post(url("/interrupt")), "Stopped."),
    compact: () => attempt(() => post(url("/compact")), "The conversation is being summed up for the model."),
    async undo(item) {
      const what = item ? "the changes to files that this turn made" : "the changes to files that the last turn made";
      if (!(await confirm("Undo", `Take back ${what}?`, "Undo"))) return;
      const done = await attempt(() => post(url("/undo"), item ? { turn: item.turn } : {}));
      if (done) tell(done.message ?? "Undone.");
    },
    async fork(item) {
      const row = await attempt(() => post(url("/fork"), item ? (item.messageId ? { message: item.messageId } : { turn: item.turn }) : {}));
      if (!row) return;
      tell("Forked: this is the copy.");
      list.take(row);
      go(conversationPath(row.id));
    },
    async archive() {
      const isArchived = conversation.row?.archived;
      const done = await attempt(() => post(url(isArchived ? "/unarchive" : "/archive")), isArchived ? "Taken out of the archive." : "Archived.");
      if (done) conversation.update({ archived: !isArchived });
    },
    async remove() {
      const sure = await confirm("Delete", `Delete “${title() || "this conversation"}” for good? Its messages cannot be brought back; files stay as they are.`, "Delete");
      if (!sure || !(await attempt(() => remove(url("")), "Deleted."))) return;
      list.forget(id);
      go("#/");
    },
    showChanges: (turn) => go(conversationPath(id, `/changes${turn ? `?turn=${encodeURIComponent(turn)}` : ""}`)),
    toEnd: () => {}, // set by the timeline
    toStart: () => {},
  };
}
