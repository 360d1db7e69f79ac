// The keyboard: one table says what each key does and what the help shows. Keys with no modifier work where nobody is typing.

import { useLayoutEffect } from "../preact.js";
import { isDialogOpen, showHelp } from "./dialogs.js";

const SECTIONS = [
  { title: "Everywhere", keys: [["?", "this list"], ["/", "search conversations"], ["n", "start a conversation"], ["w", "the next one that waits for you"], ["Esc", "back to the list; leave a field"]] },
  { title: "List", keys: [["j", "next"], ["k", "previous"], ["Enter", "open"]] },
  { title: "Conversation", keys: [["c", "write a message"], ["v", "changes, and back"], ["u", "changes: one column or two"], ["o", "fold or unfold all output"], ["g", "to the beginning"], ["Shift G", "to the end"], ["r", "rename"], ["m", "more actions"], ["Shift X", "stop the turn"]] },
  { title: "Question", keys: [["q", "go to the question"], ["a", "approve, once you are there"], ["s", "approve for the session"], ["d", "deny, with a word to the model"], ["x", "stop"]] },
  { title: "Message field", keys: [["Enter", "send"], ["Shift Enter", "new line"], ["Ctrl Enter", "queue it while the agent works"]] },
];

const isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** @param {Record<string, (event: KeyboardEvent) => void>} actions by key, as `KeyboardEvent.key` has it */
export function useKeys(actions) {
  useLayoutEffect(() => { // as soon as the page is shown: whoever sees it may press a key
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isDialogOpen()) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      action(event);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}

export const help = () => showHelp(SECTIONS);
