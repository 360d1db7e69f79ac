// Colours in the output of a command: the one thing of a terminal that is kept. Pure: text in, lines of runs out, each with the names of
// our own classes. Nothing of the text becomes an attribute, a style or an element.
//
// Only `ESC [ … m` counts. What could hide text is left out: backgrounds, reverse, conceal; and every class has enough contrast in light
// and dark. All other sequences are dropped, as `terminalText` does it.

import { SEQUENCE, terminalText } from "./visible.js";

const COLOUR = /^(?:\x1b\[|\x9b)([0-9;:]*)m$/;
const NAMES = [null, "red", "green", "yellow", "blue", "magenta", "cyan", null]; // black and white are the page's own ink
const MOST_RUNS = 4000; // more would only make the page slow

/** @typedef {{text: string, look: string}} Run */

/**
 * @param {string} text output as a terminal would get it
 * @returns {Run[][]} its lines, without line breaks
 */
export function colouredLines(text) {
  const runs = runsOf(text);
  const lines = [[]];
  for (const { text: said, look } of runs) {
    const [first, ...rest] = said.split("\n");
    if (first) lines.at(-1).push({ text: first, look });
    for (const line of rest) lines.push(line ? [{ text: line, look }] : []);
  }
  while (lines.length && !lines.at(-1).length) lines.pop();
  return lines;
}

function runsOf(text) {
  const runs = [];
  let style = {};
  let from = 0;
  for (const found of text.matchAll(SEQUENCE)) {
    const codes = COLOUR.exec(found[0]);
    if (!codes) continue;
    add(runs, text.slice(from, found.index), style);
    from = found.index + found[0].length;
    style = apply(style, codes[1]);
    if (runs.length > MOST_RUNS) break;
  }
  add(runs, text.slice(from), style);
  return runs;
}

function add(runs, piece, { colour, bold, dim, italic, underline }) {
  const text = terminalText(piece);
  if (!text) return;
  const look = [colour, bold && "bold", dim && "dim", italic && "italic", underline && "underlined"].filter(Boolean).join(" ");
  if (runs.at(-1)?.look === look) runs.at(-1).text += text;
  else runs.push({ text, look });
}

function apply(before, parameters) {
  const style = { ...before };
  const codes = parameters.split(";").slice(0, 32);
  for (let index = 0; index < codes.length; index += 1) {
    const [code, ...more] = codes[index].split(":").map((part) => Number(part || 0)); // after a colon stands what belongs to this one alone
    if (code === 0) for (const name of Object.keys(style)) delete style[name];
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = more[0] !== 0;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code >= 30 && code <= 37) style.colour = NAMES[code - 30];
    else if (code >= 90 && code <= 97) style.colour = NAMES[code - 90];
    else if (code === 39) style.colour = null;
    else if (code === 38 || code === 48 || code === 58) {
      const [kind, number] = more.length ? more : codes.slice(index + 1, index + 3).map(Number);
      if (code === 38) style.colour = kind === 5 && number < 16 ? NAMES[number % 8] : null;
      if (!more.length) index += kind === 5 ? 2 : 4;
    }
  }
  return style;
}
