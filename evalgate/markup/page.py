"""One self-contained HTML page: nothing is loaded, nothing can be sent, only our own style and script may run."""

from __future__ import annotations

import base64
import hashlib

from evalgate.markup.html import Html, element

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--soft:#f6f8fa;--line:#d1d9e0;--text:#1f2328;--dim:#59636e;--link:#0550ae;
--pass:#116329;--fail:#a40e26;--inconclusive:#6639ba;--not_measured:#7d4e00;--gone:#ffebe9;--come:#dafbe1}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--soft:#151b23;--line:#3d444d;--text:#f0f6fc;--dim:#9fabb8;
--link:#79c0ff;--pass:#56d364;--fail:#ff8182;--inconclusive:#d2a8ff;--not_measured:#e3b341;--gone:#4a1b22;
--come:#12381f}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:16px/1.5 system-ui,"Noto Sans",sans-serif;
overflow-wrap:anywhere}
header,main,footer{max-width:68rem;margin:0 auto;padding:1rem}
header{padding-bottom:0}main{padding-top:0}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.25rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.25rem 0 .25rem}
p{margin:.4rem 0}a{color:var(--link)}
code,pre{font:13px/1.5 ui-monospace,"SFMono-Regular",Menlo,Consolas,"Noto Sans Mono",monospace}
code{overflow-wrap:anywhere}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.5rem .75rem;margin:.4rem 0;
white-space:pre-wrap;overflow-wrap:anywhere;max-height:32rem;overflow:auto}
.verdict{border-left:.4rem solid var(--kind);padding:.25rem 1rem;background:var(--soft);border-radius:0 6px 6px 0}
.verdict h1{color:var(--kind)}
.pass{--kind:var(--pass)}.fail{--kind:var(--fail)}.inconclusive{--kind:var(--inconclusive)}
.not_measured{--kind:var(--not_measured)}
.badge{color:var(--kind);font-weight:600;white-space:nowrap}
.figures{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0;padding:0}
.figures div{display:flex;flex-direction:column-reverse}
.figures dt{color:var(--dim);font-size:.85rem}.figures dd{margin:0;font-size:1.25rem;font-weight:600}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{overflow-wrap:normal}
th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td:not(.n){min-width:8rem}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}
details.case{border:1px solid var(--line);border-left:.3rem solid var(--kind);border-radius:6px;margin:.5rem 0}
details.case>summary{padding:.5rem .75rem;cursor:pointer}
details.case>div{padding:0 .75rem .75rem}
details.case>summary:focus-visible,input:focus-visible,select:focus-visible{outline:2px solid var(--link);
outline-offset:1px}
.why{color:var(--dim);margin-left:.5rem}
.turn{border-top:1px solid var(--line);margin-top:.75rem;padding-top:.25rem}
.user{border-left:.25rem solid var(--line);padding-left:.75rem;margin:.4rem 0;white-space:pre-wrap;
overflow-wrap:anywhere}
.label{color:var(--dim);font-size:.85rem;margin:.5rem 0 0}
del,.gone{background:var(--gone);text-decoration:none}ins,.come{background:var(--come);text-decoration:none}
del{text-decoration:line-through}ins{text-decoration:underline}
.row{display:block;min-height:1.5em}
.filters{display:flex;flex-wrap:wrap;gap:1rem;align-items:end;margin:.5rem 0}
.filters[hidden],[hidden]{display:none}
.filters label{display:flex;flex-direction:column;font-size:.85rem;color:var(--dim)}
input,select{font:inherit;color:var(--text);background:var(--bg);border:1px solid var(--dim);border-radius:6px;
padding:.3rem .5rem;min-width:12rem}
footer{color:var(--dim);font-size:.85rem;border-top:1px solid var(--line);margin-top:2rem}
@media print{details.case>div{display:block}.filters{display:none}}
"""

SCRIPT = """
(() => {
  const form = document.getElementById('filters'), shown = document.getElementById('shown');
  if (!form) return;
  const cases = [...document.querySelectorAll('details.case')];
  const apply = () => {
    const kind = form.elements.kind.value, words = form.elements.words.value.toLowerCase();
    let count = 0;
    for (const each of cases) {
      const fits = (!kind || each.classList.contains(kind)) &&
        (!words || each.querySelector('summary').textContent.toLowerCase().includes(words));
      each.hidden = !fits;
      count += fits;
    }
    shown.textContent = count + ' of ' + cases.length + ' shown';
  };
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.hidden = false;
  apply();
  const named = location.hash && document.getElementById(location.hash.slice(1));
  if (named && named.matches('details')) { named.open = true; named.scrollIntoView(); }
})();
"""


def render_page(title: str, body: Html) -> str:
    """The page. Its policy forbids every request, form and frame, and every style and script but these two."""
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    page = element("html", head, element("body", body, element("script", Html(SCRIPT))), lang="en")
    return f"<!doctype html>\n{page}\n"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def table(header: list[str], rows: list[list[Html | str]], *, label: str, numeric: range) -> Html:
    """A table that scrolls by itself where it is too wide, named `label`; columns in `numeric` are set right."""
    head = element(
        "tr", *(element("th", name, scope="col", class_=_class(at, numeric)) for at, name in enumerate(header))
    )
    body = [
        element("tr", *(element("td", cell, class_=_class(at, numeric)) for at, cell in enumerate(row))) for row in rows
    ]
    shown = element("table", element("thead", head), element("tbody", *body))
    return element("div", shown, class_="scroll", tabindex=0, role="group", aria_label=label)


def _class(column: int, numeric: range) -> str | None:
    return "n" if column in numeric else None
