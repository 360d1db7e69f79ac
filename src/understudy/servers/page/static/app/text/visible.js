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
const LONG_BLANK = / {24,}/g;

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
 * What has to be exactly what it looks like: a command, a path. Long runs of blanks are counted, so that they push nothing out of sight.
 * @param {string} text
 */
export function exact(text) {
  return text.replace(HIDDEN, escaped).replace(ODD_BLANK, escaped).replace(LONG_BLANK, (run) => `\\u{20}*${run.length}`);
}

/** One line of it: a title, a name. */
export const oneLine = (text) => shown(String(text ?? "")).replace(/\s+/g, " ").trim();

// What follows ESC, or stands in one C1 character: a control sequence, a string up to its end, or a short sequence.
const SEQUENCE = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?/g;
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

/** The script of `bash -lc SCRIPT`, which is what a reader wants to see; else null. */
export function scriptOf(argv) {
  const shell = /(?:^|\/)(?:ba|z|da|k)?sh$/.test(argv[0] ?? "");
  return shell && argv.length === 3 && /^-[a-z]*c$/.test(argv[1]) ? argv[2] : null;
}
