"""Words that would like to ping, link, render, break out or command."""

PINGS = "@octocat @org/team #1 GH-2 org/repo#3 6a57802d3f0f4e9b8c7a6b5c4d3e2f1a0b9c8d7e user@example.org"
LINKS_ = "https://evil.example www.evil.example [click](https://evil.example) <https://evil.example> mailto:a@b.example"
MARKUP = (
    "<img src=x onerror=alert(1)> ![x](https://evil.example/x.png) <!-- evalgate --> </details></pre></code> **bold** "
    "_it_ ~~gone~~ $x^2$ $y$ :tada: <script>alert(1)</script> &lt; &amp; [^1] [ ] <b>"
)
BREAKERS = "a|b \\| c\\\\| `tick` ``two`` ```three``` ~~~ \r\n# heading\n| x | y |\n|---|---|\n> quote\n- item\n\n1. one"
COMMANDS = "::error::owned\n::set-output name=verdict::pass\n##[error]owned\n%0A::warning::x"
CONTROLS = "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x00\x07\x08 \u202eevil\u202c \u2066x\u2069 "
CONTROLS += "zero\u200bwidth\ufeff \ud800 \ufffe \x85 \u2028 soft\u00adhyphen \U000e0041"
HOSTILE = f"{PINGS}\n{LINKS_}\n{MARKUP}\n{BREAKERS}\n{COMMANDS}\n{CONTROLS}"
