// Looks for all words in each part of each page, as somebody types. PARTS: [file, title, anchor, heading, text].
const MOST = 12;
const AROUND = 70;
const field = document.getElementById("site-search");
const found = document.getElementById("site-found");
const folded = PARTS.map(([, title, , heading, text]) => [title, heading, text].map((each) => each.toLowerCase()));

function rank(words, [title, heading, text]) {
  let points = 0;
  for (const word of words) {
    const here = (heading.includes(word) ? 8 : 0) + (title.includes(word) ? 4 : 0) + (text.includes(word) ? 1 : 0);
    if (here === 0) return 0;
    points += here;
  }
  return points;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - AROUND);
  return (at > 0 ? "… " : "") + text.slice(at, at + 2 * AROUND) + (at + 2 * AROUND < text.length ? " …" : "");
}

function row([file, title, anchor, heading, text], words) {
  const link = document.createElement("a");
  link.href = `${file}#${anchor}`;
  link.textContent = heading === title ? title : `${title}: ${heading}`;
  const small = document.createElement("small");
  small.textContent = excerpt(text, words.find((word) => text.toLowerCase().includes(word)) ?? "");
  const item = document.createElement("li");
  item.append(link, small);
  return item;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  const ranked = folded.map((part, number) => [rank(words, part), number]).filter(([points]) => points > 0);
  ranked.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  if (ranked.length === 0) {
    const nothing = document.createElement("p");
    nothing.textContent = "Nothing has all of these words.";
    found.replaceChildren(nothing);
    return;
  }
  const list = document.createElement("ol");
  list.append(...ranked.slice(0, MOST).map(([, number]) => row(PARTS[number], words)));
  found.replaceChildren(list);
}

field.addEventListener("input", show);
field.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { field.value = ""; show(); }
  if (event.key === "Enter") found.querySelector("a")?.click();
});
found.addEventListener("click", (event) => {
  if (event.target.closest("a")) { field.value = ""; show(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
});
const pages = document.querySelector("nav details");
const wide = matchMedia("(min-width: 50.01rem)");
const follow = () => { pages.open = wide.matches; };
wide.addEventListener("change", follow);
follow();
