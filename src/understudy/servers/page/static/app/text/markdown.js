// A model's markdown -> inert nodes. Three walls: raw HTML is shown as text, images are never fetched, links are only http(s)
// and show where they lead; DOMPurify keeps what is listed here and nothing else; the server's policy (CSP) forbids the rest.
//
// Nodes and not a string come out of DOMPurify: what it has checked is what is shown, without being parsed a second time.

import DOMPurify from "../../vendor/dompurify.js";
import { Lexer, Marked } from "../../vendor/marked.js";
import { shown } from "./visible.js";

/** Longer blocks are shown as plain text: a parser must not be given the time to hold up the page. */
export const LONGEST_BLOCK = 6_000;
const LONGEST_TEXT = 200_000;

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => String(text ?? "").replace(/[&<>"']/g, (character) => ENTITIES[character]);

/** The address in plain letters (a host of foreign letters in its coded form), or null if it is not one of the web's. */
export function webAddress(href) {
  let url;
  try {
    url = new URL(href);
  } catch {
    return null;
  }
  return (url.protocol === "https:" || url.protocol === "http:") && !url.username && !url.password ? url.href : null;
}

function linked(label, href, saysItself) {
  const address = webAddress(href);
  if (address === null) return `${label} <span class="target">(${escape(shown(href))})</span>`;
  const target = saysItself ? "" : ` <span class="target">(${escape(shortened(address))})</span>`;
  return `<a href="${escape(address)}">${label}</a>${target}`;
}

const shortened = (address) => (address.length > 120 ? `${address.slice(0, 119)}…` : address);

const renderer = {
  html: ({ text }) => escape(text),
  link({ href, text, tokens }) {
    const label = this.parser.parseInline(tokens);
    return linked(label, href, text === href || webAddress(text) === webAddress(href));
  },
  image: ({ href, text }) => linked(`<span class="picture">image: ${escape(text || "without a name")}</span>`, href, false),
  heading({ tokens, depth }) { // the page's own headings are above them
    const level = Math.min(6, depth + 2);
    return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
  },
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  code({ text, lang }) {
    const name = (lang ?? "").trim().split(/\s/)[0];
    const label = name ? `<span class="language">${escape(name.slice(0, 40))}</span>` : "";
    return `<pre>${label}<code>${escape(text)}</code></pre>\n`;
  },
};

const marked = new Marked({ gfm: true, renderer });

const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "class", "start", "align", "rel", "target"],
  ALLOWED_URI_REGEXP: /^https?:\/\//i,
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const OUR_CLASSES = new Set(["target", "picture", "language"]);

DOMPurify.addHook("uponSanitizeAttribute", (_node, attribute) => {
  if (attribute.attrName === "class" && !OUR_CLASSES.has(attribute.attrValue)) attribute.keepAttr = false;
});
DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "PRE") node.setAttribute("tabindex", "0"); // wide code scrolls, also by keyboard
  if (node.tagName !== "A") return;
  node.setAttribute("rel", "noopener noreferrer");
  node.setAttribute("target", "_blank");
});

/** @typedef {{raw: string, isCode: boolean}} Block */

/**
 * The top-level blocks of a text, each as it was written. What is in them is not looked at yet, which is most of the work.
 * @param {string} text
 * @returns {Block[]}
 */
export function blocksOf(text) {
  if (text.length > LONGEST_TEXT) return [{ raw: text, isCode: false }];
  try {
    return new Lexer().blockTokens(text, []).map(({ type, raw }) => ({ raw, isCode: type === "code" }));
  } catch {
    return [{ raw: text, isCode: false }]; // nested too deep for the parser
  }
}

/**
 * @param {Block} block
 * @param {boolean} isOpen it still grows, so that it will not be shown like this again
 * @returns {Node} inert, for any text whatsoever
 */
export function showBlock({ raw, isCode }, isOpen = false) {
  const known = lately.get(raw);
  if (known) return known.cloneNode(true);
  if (raw.length > (isCode ? LONGEST_TEXT : LONGEST_BLOCK)) return plain(raw);
  try {
    const nodes = DOMPurify.sanitize(marked.parse(shown(raw)), ALLOWED);
    return isOpen ? nodes : remember(raw, nodes);
  } catch {
    return plain(raw);
  }
}

// Blocks as they were shown lately: a finished message is the same ones again that were shown while it grew.
const lately = new Map();
const MOST_LATELY = 2000;

function remember(raw, nodes) {
  if (raw.length > 2000) return nodes;
  if (lately.size >= MOST_LATELY) lately.delete(lately.keys().next().value);
  lately.set(raw, nodes);
  return nodes.cloneNode(true);
}

/**
 * @param {string} text
 * @returns {Node} inert, for any text whatsoever
 */
export function markdown(text) {
  if (text.length <= 500) return showBlock({ raw: text, isCode: false });
  const whole = document.createDocumentFragment();
  for (const block of blocksOf(text)) whole.append(showBlock(block));
  return whole;
}

function plain(text) {
  const paragraph = document.createElement("p");
  paragraph.className = "plain";
  paragraph.textContent = shown(text);
  return paragraph;
}
