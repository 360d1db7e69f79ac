// The timeline: the window's items, what is being said, and where the reader stands in it. The end stays in sight while the reader is
// there; elsewhere what they read stays where it is, whatever is added or dropped above and below.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../preact.js";
import { useObserved } from "../state/observed.js";
import { GrowingProse, Kept, Words } from "./inert.js";
import { Item } from "./items.js";
import { Output } from "./output.js";

const NEAR = 48; // pixels from the end that still count as being there

export function Timeline({ conversation, actions, unfolded }) {
  useObserved(conversation);
  const box = useRef(null);
  const inner = useRef(null);
  const place = useRef({ atEnd: true, key: null, top: 0 });
  const [isAtEnd, setAtEnd] = useState(true);

  const note = () => {
    const element = box.current;
    const atEnd = conversation.atEnd && element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    const first = atEnd ? null : firstVisible(element);
    place.current = { atEnd, key: first?.dataset.key ?? null, top: first ? first.getBoundingClientRect().top : 0 };
    conversation.keepOld = !atEnd;
    setAtEnd(atEnd);
  };
  const restore = () => {
    const element = box.current;
    const { atEnd, key, top } = place.current;
    if (atEnd) element.scrollTop = element.scrollHeight;
    else if (key) {
      const item = element.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (item) element.scrollTop += item.getBoundingClientRect().top - top;
    }
  };
  useLayoutEffect(restore);
  useEffect(() => {
    const observer = new ResizeObserver(() => place.current.atEnd && restore());
    observer.observe(inner.current);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEdges(box, inner, conversation);

  const toEnd = async () => {
    place.current = { atEnd: true, key: null, top: 0 };
    conversation.keepOld = false;
    await conversation.toEnd();
    restore();
    setAtEnd(true);
  };
  actions.toEnd = toEnd;
  actions.toStart = async () => {
    await conversation.toStart();
    place.current = { atEnd: false, key: null, top: 0 };
    setTimeout(() => box.current && (box.current.scrollTop = 0), 50);
  };
  return html`
    <div class="timeline-frame">
      <div class="timeline" ref=${box} onScroll=${note} tabindex="0" role="region" aria-label="Messages" data-testid="timeline">
        <div class="timeline-inner" ref=${inner}>
          <h2 class="visually-hidden">Messages</h2>
          <div class="edge" data-edge="start">${conversation.more && html`<button type="button" class="link-button" onClick=${() => conversation.older()}>Earlier messages</button>`}</div>
          <${Kept} of=${Items} conversation=${conversation} version=${conversation.version} actions=${actions} unfolded=${unfolded} />
          ${conversation.atEnd && html`<${Live} conversation=${conversation} />`}
          <div class="edge" data-edge="end">${!conversation.atEnd && html`<button type="button" class="link-button" onClick=${() => conversation.newer()}>Later messages</button>`}</div>
        </div>
      </div>
      ${!isAtEnd && html`<button type="button" class="button to-end" onClick=${toEnd}>${conversation.unseen ? `Newest (${conversation.unseen} more) ↓` : "Newest ↓"}</button>`}
    </div>`;
}

function Items({ conversation, actions, unfolded }) {
  return html`
    <ol class="items">
      ${conversation.items.map((item) => html`<${Kept} key=${item.key} of=${Item} item=${item} actions=${actions} unfolded=${unfolded} />`)}
    </ol>`;
}

function firstVisible(element) {
  const top = element.getBoundingClientRect().top;
  const items = element.querySelectorAll(".items > li");
  let low = 0;
  let high = items.length - 1;
  while (low < high) { // they are in order, so half of them can be left out at each look
    const middle = (low + high) >> 1;
    if (items[middle].getBoundingClientRect().bottom > top) high = middle;
    else low = middle + 1;
  }
  return items[low] ?? null;
}

/** Read on where the reader comes near either end of the window. */
function useEdges(box, inner, conversation) {
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting || !conversation.loaded) continue;
        if (target.dataset.edge === "start") conversation.older().catch(() => {});
        else conversation.newer().catch(() => {});
      }
    }, { root: box.current, rootMargin: "600px 0px" });
    for (const edge of inner.current.querySelectorAll(".edge")) observer.observe(edge);
    return () => observer.disconnect();
  }, [conversation, conversation.first, conversation.atEnd, conversation.loaded]);
}

/** What is being said, thought and put out right now. */
function Live({ conversation }) {
  const { live, state } = conversation;
  useObserved(live);
  const isWorking = state === "working";
  const shownAbove = new Set(conversation.items.filter((item) => item.kind === "command" && item.state === "running").map((item) => item.callId));
  const others = [...live.output].filter(([call]) => !shownAbove.has(call)); // of commands that began before the window does
  return html`
    <div class="live">
      ${live.reasoning && html`<div class="folded reasoning live-reasoning"><span class="label">Thinking</span> <${Words} text=${live.reasoning.slice(-400)} /></div>`}
      ${live.text && html`<article class="agent-message" aria-label="Message of the agent, being written"><${GrowingProse} text=${live.text} /></article>`}
      ${others.map(([call, text]) => html`<div key=${call} class="live-output"><${Output} text=${text} isRunning=${true} /></div>`)}
      ${isWorking && !live.text && html`<p class="at-work"><span class="pulse" aria-hidden="true"></span> Working …</p>`}
    </div>`;
}
