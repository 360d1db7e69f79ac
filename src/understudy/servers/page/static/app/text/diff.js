// Unified diffs -> files, hunks and rows. Pure; whatever it does not understand becomes a row of plain text.

/**
 * @typedef {{kind: "same"|"added"|"removed"|"note", old: number|null, new: number|null, text: string}} Row
 * @typedef {{heading: string, rows: Row[]}} Hunk
 * @typedef {{path: string, from: string|null, change: "add"|"delete"|"update"|"move", added: number, removed: number, hunks: Hunk[]}} File
 */

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;

/**
 * @param {string} text a diff of any number of files, as `git diff` writes it
 * @returns {File[]}
 */
export function parseDiff(text) {
  /** @type {File[]} */
  const files = [];
  let file = null;
  let body = [];
  const close = () => {
    if (file) readBody(file, body);
    body = [];
  };
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  let left = { old: 0, new: 0 }; // lines of the present hunk that are still to come: "--- " may be one of them
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index];
    const inHunk = left.old > 0 || left.new > 0;
    if (!inHunk && line.startsWith("diff --git ")) {
      close();
      file = emptyFile(pathOfGitLine(line));
      files.push(file);
    } else if (!inHunk && line.startsWith("--- ") && (lines[index + 1] ?? "").startsWith("+++ ")) {
      if (!file || body.length || file.named) {
        close();
        file = emptyFile("");
        files.push(file);
      }
      nameFile(file, pathOf(line, "a/"), pathOf(lines[index + 1], "b/"));
      index += 1;
    } else if (!inHunk && file && !body.length && isExtended(file, line)) {
      continue;
    } else {
      if (!file) {
        file = emptyFile("");
        files.push(file);
      }
      const head = line.match(/^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/);
      if (head && !inHunk) left = { old: Number(head[1] ?? 1), new: Number(head[2] ?? 1) };
      else if (inHunk) {
        if (!line.startsWith("+") && !line.startsWith("\\")) left.old -= 1;
        if (!line.startsWith("-") && !line.startsWith("\\")) left.new -= 1;
      }
      body.push(line);
    }
  }
  close();
  return files;
}

const emptyFile = (path) => ({ path, from: null, change: "update", added: 0, removed: 0, hunks: [], named: false });

function isExtended(file, line) {
  if (line.startsWith("new file")) file.change = "add";
  else if (line.startsWith("deleted file")) file.change = "delete";
  else if (line.startsWith("rename from ")) {
    file.from = line.slice("rename from ".length);
    file.change = "move";
  } else if (line.startsWith("rename to ")) file.path = line.slice("rename to ".length);
  else return /^(index |old mode|new mode|similarity|dissimilarity|copy )/.test(line);
  return true;
}

function nameFile(file, before, after) {
  file.named = true;
  if (before === "/dev/null") file.change = "add";
  else if (after === "/dev/null") file.change = "delete";
  else if (before !== after) {
    file.from = before;
    file.change = "move";
  }
  file.path = after === "/dev/null" ? before : after;
}

function pathOf(line, prefix) {
  const path = unquoted(line.slice(4).split("\t")[0]);
  return path.startsWith(prefix) ? path.slice(2) : path;
}

const unquoted = (path) => (path.startsWith('"') && path.endsWith('"') ? path.slice(1, -1) : path);

function pathOfGitLine(line) {
  const names = line.slice("diff --git ".length);
  const half = names.slice(2, (names.length - 1) / 2); // "a/NAME b/NAME", where both are alike
  return names === `a/${half} b/${half}` ? half : names;
}

function readBody(file, lines) {
  let hunk = null;
  let before = 1;
  let after = 1;
  for (const line of lines) {
    const head = line.match(HUNK);
    if (head) {
      [before, after] = [Number(head[1]), Number(head[2])];
      hunk = { heading: head[3], rows: [] };
      file.hunks.push(hunk);
      continue;
    }
    if (!hunk) file.hunks.push((hunk = { heading: "", rows: [] }));
    const text = line.slice(1);
    if (line[0] === "+") hunk.rows.push({ kind: "added", old: null, new: after++, text });
    else if (line[0] === "-") hunk.rows.push({ kind: "removed", old: before++, new: null, text });
    else if (line[0] === " " || line === "") hunk.rows.push({ kind: "same", old: before++, new: after++, text });
    else hunk.rows.push({ kind: "note", old: null, new: null, text: line.replace(/^\\ /, "") });
  }
  for (const { rows } of file.hunks) {
    file.added += rows.filter((row) => row.kind === "added").length;
    file.removed += rows.filter((row) => row.kind === "removed").length;
  }
}

/**
 * The files of a patch as events have them: by path, each added, deleted or updated.
 * @param {Record<string, any>} changes
 * @param {string} folder paths below it are shown from there
 */
export function filesOfChanges(changes, folder = "") {
  return Object.entries(changes ?? {}).map(([whole, change]) => {
    const path = below(folder, whole);
    if (change.type === "update") {
      const file = parseDiff(change.unified_diff ?? "")[0] ?? emptyFile(path);
      return change.move_path ? { ...file, path: below(folder, change.move_path), from: path, change: "move" } : { ...file, path, from: null, change: "update" };
    }
    const kind = change.type === "add" ? "added" : "removed";
    const lines = (change.content ?? "").split("\n");
    if (lines.at(-1) === "") lines.pop();
    const rows = lines.map((text, index) => ({ kind, old: kind === "removed" ? index + 1 : null, new: kind === "added" ? index + 1 : null, text }));
    const counted = { added: kind === "added" ? rows.length : 0, removed: kind === "removed" ? rows.length : 0 };
    return { path, from: null, change: change.type, ...counted, hunks: rows.length ? [{ heading: "", rows }] : [] };
  });
}

/** A path as it is shown: from the conversation's folder, where it is in there. */
export const below = (folder, path) => (folder && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path);

/**
 * The rows of a hunk in two columns: what was removed stands beside what was added in its place.
 * @param {Row[]} rows
 * @returns {{left: Row|null, right: Row|null}[]}
 */
export function sideBySide(rows) {
  const pairs = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      pairs.push({ left: removed[index] ?? null, right: added[index] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const row of rows) {
    if (row.kind === "removed") {
      if (added.length) flush();
      removed.push(row);
    } else if (row.kind === "added") added.push(row);
    else {
      flush();
      pairs.push({ left: row, right: row });
    }
  }
  flush();
  return pairs;
}
