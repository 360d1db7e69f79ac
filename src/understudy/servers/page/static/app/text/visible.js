// Text of others, made safe to look at: hidden characters are shown, a terminal's commands are taken out.
// Says the same as `policy/visible.py`, in the same notation, so that all doors show a character alike.

// Nothing to see, and yet there: controls, marks of direction, zero-width characters, fillers, stray surrogates.
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
// What belongs to an emoji may stay in prose: a joiner between two pictures, and the mark that says "in colour".
const OF_EMOJI = /(?<=\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d(?=\p{Extended_Pictographic})|(?<=[\p{Extended_Pictographic}#*0-9])\ufe0f/gu;
const KEPT = "\ue000";
const KEPT_JOINER = "\ue001";
// Odd blanks, which a name or a command must not hide behind. Prose may have them.
const ODD_BLANK = /(?! )\p{Zs}|[\p{Co}\p{Cn}]|\t/gu;
// Letters of other scripts that look like Latin ones, or may, which a Latin word must not hide. (A question's text names them, as well.)
// Greek letters that do not are left alone: `Δx`, `μm`.
const WORD = /[\p{L}\p{Nl}\p{M}]+/gu;
const LATIN = /[A-Za-z\u00c0-\u024f]/;
const LOOKALIKE = /[\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03f2\u03f3\u03f9\u0251\u0261\u0400-\u052f\u0531-\u0587\u13a0-\u13fd\u1c80-\u1c8f\u2160-\u217f\ua4d0-\ua4ff\uab70-\uabbf\uff21-\uff3a\uff41-\uff5a\u{1d400}-\u{1d7ff}]/gu;
const LONG_BLANK = / {24,}/g;
const EMPTY_LINES = /\n{4,}/g;

const unmixed = (word) => (LATIN.test(word) ? word.replace(LOOKALIKE, escaped) : word);
const escaped = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;

/**
 * Prose and output: line breaks and tabs stay, and so do emoji; whatever else cannot be seen is written as \u{hex}.
 * @param {string} text
 */
export function shown(text) {
  if (!HIDDEN.test(text)) return text;
  HIDDEN.lastIndex = 0;
  const kept = text.replace(/[\ue000\ue001]/g, escaped).replace(OF_EMOJI, (mark) => (mark === "\u200d" ? KEPT_JOINER : KEPT));
  return kept.replace(HIDDEN, escaped).replaceAll(KEPT, "\ufe0f").replaceAll(KEPT_JOINER, "\u200d");
}

/**
 * What has to be exactly what it looks like: a command, a path. A letter of another script in a Latin word is written as \u{hex}. Long runs of blanks and of line breaks are counted, so that they push
 * nothing out of sight.
 * @param {string} text
 */
export function exact(text) {
  return text.replace(WORD, unmixed).replace(HIDDEN, escaped).replace(ODD_BLANK, escaped).replace(LONG_BLANK, (run) => `\\u{20}*${run.length}`).replace(EMPTY_LINES, (run) => `\\u{a}*${run.length}\n`);
}

/** The same in one line: a path may have line breaks in it, which would look like blanks. */
export const exactLine = (text) => exact(String(text ?? "").replaceAll("\n", "\\u{a}"));

/** One line of it: a title, a name. */
export const oneLine = (text) => shown(String(text ?? "")).replace(/\s+/g, " ").trim();

// What follows ESC, or stands in one C1 character: a control sequence, a string up to its end, or a short sequence.
export const SEQUENCE = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?/g;
const OTHER_CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/**
 * Output of a command without anything a terminal would obey. A lone carriage return becomes a line break: nothing is painted over.
 * @param {string} text
 */
export function terminalText(text) {
  return shown(text.replaceAll("\r\n", "\n").replace(SEQUENCE, "").replaceAll("\r", "\n").replace(OTHER_CONTROL, ""));
}

const PLAIN_WORD = /^[A-Za-z0-9_@%+=:,./-]+$/;

/**
 * A command as a person would type it, each word quoted where a shell would need it.
 * @param {string[]} argv
 */
export function quoted(argv) {
  return argv.map((word) => (PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** The script of `bash -lc SCRIPT`, which is what a reader wants to see; else null. Only of the system's own shells: `./bash` is any program. */
export function scriptOf(argv) {
  const isShell = /^(?:(?:\/usr)?\/bin\/)?(?:ba|z|da)?sh$/.test(argv[0] ?? "");
  return isShell && argv.length === 3 && /^-l?c$/.test(argv[1]) ? argv[2] : null;
}
