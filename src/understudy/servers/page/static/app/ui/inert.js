// Elements for text of others. It is only ever a text node, or what `markdown` has made inert.

import { Component, h } from "../../vendor/htm-preact.js";
import { html, useLayoutEffect, useRef } from "../preact.js";
import { GrowingMarkdown } from "../text/growing.js";
import { markdown } from "../text/markdown.js";
import { exact, exactLine, oneLine, shown } from "../text/visible.js";

/** A finished text in markdown. */
export function Prose({ text }) {
  const element = useRef(null);
  useLayoutEffect(() => element.current.replaceChildren(markdown(text)), [text]);
  return html`<div ref=${element} class="prose" dir="auto"></div>`;
}

/** A text in markdown that is still growing. */
export function GrowingProse({ text }) {
  const element = useRef(null);
  const growing = useRef(null);
  useLayoutEffect(() => {
    growing.current = new GrowingMarkdown(element.current);
    return () => growing.current.stop();
  }, []);
  useLayoutEffect(() => growing.current.show(text), [text]);
  return html`<div ref=${element} class="prose growing" dir="auto"></div>`;
}

export const Words = ({ text }) => html`<span class="words" dir="auto">${shown(String(text ?? ""))}</span>`;
export const Line = ({ text }) => html`<bdi>${oneLine(text)}</bdi>`;
export const Path = ({ path, class: extra = "" }) => html`<bdi class="path ${extra}" title=${exactLine(path)}>${exactLine(path)}</bdi>`;
export const Code = ({ text }) => html`<code dir="ltr">${exact(String(text ?? ""))}</code>`;

/** Renders its child again only if one of its properties is another one: most of a timeline stays as it is. */
export class Kept extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render({ of: Part, ...properties }) {
    return h(Part, properties);
  }
}
