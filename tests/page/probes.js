// What tests look for in the page, whatever was shown on it.

/** Elements and attributes by which a browser could be made to do something. The page's own parts have none of them. */
function activeParts() {
  const wrong = [];
  const tags = "script, iframe, frame, object, embed, style, link, meta, base, svg, math, video, audio, template, form[action], area";
  for (const element of document.body.querySelectorAll(tags)) wrong.push(element.outerHTML.slice(0, 200));
  for (const element of document.body.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      const said = `${element.tagName} ${name}=${value.slice(0, 100)}`;
      if (/^on/i.test(name) || ["style", "srcset", "srcdoc"].includes(name)) wrong.push(said);
      if (["href", "src", "action", "formaction"].includes(name) && !leadsSomewhereSafe(element, value)) wrong.push(said);
    }
  }
  if (window.hacked !== undefined) wrong.push("it ran");
  if (document.querySelectorAll("#page").length !== 1) wrong.push("an id was taken over");
  return wrong;
}

function leadsSomewhereSafe(element, value) {
  const url = new URL(value, location.href);
  if (url.origin === location.origin || (url.protocol === "data:" && element.tagName === "IMG")) return true;
  return element.tagName === "A" && ["http:", "https:"].includes(url.protocol) && element.rel === "noopener noreferrer";
}

/** Letters that are there and cannot be seen, anywhere in the text of the page. */
function unseenLetters() {
  const hidden = /(?![\n\t])[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u2028\u2029\u{e0000}-\u{e007f}]/gu;
  const found = new Set(document.body.innerText.match(hidden) ?? []);
  return [...found].map((letter) => `unseen: ${letter.codePointAt(0).toString(16)}`);
}

const isSeen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

/** What can be used and has no name that a screen reader could say. */
function namelessControls() {
  const controls = document.querySelectorAll("a, button, input, select, textarea, summary, [tabindex='0']");
  const nameOf = (element) =>
    element.ariaLabel || element.getAttribute("aria-labelledby") || element.labels?.[0]?.textContent.trim() || element.innerText?.trim();
  return [...controls].filter((element) => isSeen(element) && !nameOf(element)).map((element) => element.outerHTML.slice(0, 120));
}

/** What reaches beyond the right edge of the window and cannot be scrolled by itself. */
function tooWide() {
  const width = document.documentElement.clientWidth;
  const isScrolled = (element) =>
    element && (["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX) || isScrolled(element.parentElement));
  const wide = [...document.querySelectorAll("body *")].filter(
    (element) => isSeen(element) && element.getBoundingClientRect().right > width + 1 && !isScrolled(element.parentElement),
  );
  if (document.documentElement.scrollWidth > width) wide.push(document.body);
  return wide.map((element) => element.outerHTML.slice(0, 100));
}

/** Text with less contrast than WCAG asks for (4.5) against what is behind it. */
function faintText() {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const lightness = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const behind = (element) => {
    const [red, green, blue, alpha = 1] = channels(getComputedStyle(element).backgroundColor);
    return alpha === 1 ? [red, green, blue] : behind(element.parentElement);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!hasText || !isSeen(element) || element.closest(":disabled, .visually-hidden, .skip, option, [aria-hidden]")) continue;
    const [one, other] = [lightness(channels(getComputedStyle(element).color)), lightness(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${element.className} ${element.innerText.slice(0, 30)}`);
  }
  return found;
}
