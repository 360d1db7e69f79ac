// State that parts of the page look at. Many changes within one frame are shown once.

import { useEffect, useReducer } from "../preact.js";

export class Observed {
  constructor() {
    this._watchers = new Set();
    this._due = false;
    this.changes = 0; // how many there have been
  }

  watch(watcher) {
    this._watchers.add(watcher);
    return () => this._watchers.delete(watcher);
  }

  /** Something is different: shown in the next frame, or soon where the tab is hidden and there are no frames. */
  changed() {
    this.changes += 1;
    if (this._due) return;
    this._due = true;
    const tell = () => {
      if (!this._due) return;
      this._due = false;
      for (const watcher of [...this._watchers]) watcher();
    };
    if (document.visibilityState === "hidden") setTimeout(tell, 50);
    else {
      requestAnimationFrame(tell);
      setTimeout(tell, 250); // a tab that has just been hidden gets no frame
    }
  }
}

/** Render the component again whenever the state changes, also between its first rendering and the effect that begins to watch. */
export function useObserved(state) {
  const [, again] = useReducer((number) => number + 1, 0);
  const rendered = state.changes;
  useEffect(() => {
    if (state.changes !== rendered) again();
    return state.watch(() => again());
  }, [state]);
  return state;
}
