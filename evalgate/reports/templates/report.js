// The list of cases beside the page, and one case: expected | base | head. Data stands in the script elements of type
// text/plain: the index first, then parts with conversations (reports/page_data.py). Nothing is ever set as HTML.
(async () => {
  'use strict';
  const {html, render, Component} = htmPreact;
  const live = globalThis.evalgateLive;  // what `evalgate ui` shows besides (evalgate/ui)
  const blocks = [...document.querySelectorAll('script[type="text/plain"]')];
  if (!blocks.length || typeof DecompressionStream === 'undefined') return;

  const unpack = async block => {
    const bytes = Uint8Array.from(atob(block.textContent), each => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return JSON.parse(await new Response(stream).text());
  };
  const parts = new Map();
  const part = async number => {
    if (!parts.has(number)) parts.set(number, await unpack(blocks[number + 1]));
    if (parts.size > 6) parts.delete(parts.keys().next().value);
    return parts.get(number);
  };
  const index = await unpack(blocks[0]);
  const cases = index.cases;
  for (const each of cases) {
    each.file = index.suites[each.suite];
    each.key = each.file + '::' + each.id;
    each.text = (each.id + ' ' + each.file + ' ' + each.why + ' ' + each.words +
      (each.cause < 0 ? '' : ' ' + index.causes[each.cause].text)).toLowerCase();
  }

  // --- words -----------------------------------------------------------------------------------
  const SIGNS = {pass: '\u2713', fail: '\u2717', flaky: '\u25cf', inconclusive: '?', not_measured: '\u26a0'};
  const RUNS = {p: ['\u2713', 'passed', 'pass'], f: ['\u2717', 'below a threshold', 'fail'],
    u: ['\u26a0', 'not measured', 'not_measured']};
  const WORDS_OF = {flaky: 'fail, not blocking', not_measured: 'not measured'};
  const STATUSES = index.statuses;
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
  const seen = text => String(text).replace(HIDDEN, each => each === '\u200d' ? each :
    '\\u' + each.charCodeAt(0).toString(16).padStart(4, '0'));
  const number = value => value === null || value === undefined ? '-' :
    Number.isInteger(value) ? String(value) : String(Math.round(value * 10000) / 10000);
  const inOrder = value => value && typeof value === 'object' && !Array.isArray(value) ?
    Object.fromEntries(Object.keys(value).sort().map(each => [each, inOrder(value[each])])) :
    Array.isArray(value) ? value.map(inOrder) : value;
  const json = value => JSON.stringify(value);
  const same = (left, right) => json(inOrder(left)) === json(inOrder(right));

  // --- address ---------------------------------------------------------------------------------
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    return {q: given.get('q') || '', only: (given.get('only') || '').split(',').filter(each => STATUSES.includes(each)),
      group: given.get('group') || 'cause', open: given.get('case') || '', head: given.get('head'), base: given.get('base')};
  };
  const address = state => {
    const given = new URLSearchParams();
    if (state.open) given.set('case', state.open);
    if (state.q) given.set('q', state.q);
    if (state.only.length) given.set('only', state.only.join(','));
    if (state.group !== 'cause') given.set('group', state.group);
    for (const side of ['head', 'base']) if (state.open && state[side] !== null) given.set(side, state[side]);
    return '#' + given;
  };

  // --- list ------------------------------------------------------------------------------------
  const fits = (each, terms) => terms.every(([no, field, word]) =>
    (field === 'suite' ? each.file.toLowerCase().includes(word) : each.text.includes(word)) !== no);
  const terms = text => text.toLowerCase().split(/\s+/).filter(Boolean).map(word => {
    const no = word.length > 1 && word[0] === '-';
    const rest = no ? word.slice(1) : word;
    return rest.startsWith('suite:') ? [no, 'suite', rest.slice(6)] : [no, '', rest];
  });
  const title = (each, group) => group === 'suite' ? each.file : group === 'status' ? each.status :
    each.cause < 0 ? each.status : index.causes[each.cause].status + ': ' + index.causes[each.cause].text;
  const ROW = 52;

  class List extends Component {
    constructor() { super(); this.state = {top: 0, height: 800}; }
    componentDidMount() {
      const measure = () => this.setState({height: this.box.clientHeight || 800});
      measure();
      addEventListener('resize', measure);
    }
    componentDidUpdate(before) {
      if (before.state === this.props.state) return;
      const at = this.props.rows.findIndex(each => each.key && each.key === this.props.state.open);
      const box = this.box;
      if (before.state.open !== this.props.state.open && at >= 0 &&
          (at * ROW < box.scrollTop || (at + 1) * ROW > box.scrollTop + box.clientHeight)) {
        box.scrollTop = at * ROW - box.clientHeight / 3;
      }
    }
    render({rows, state, shown, set}, {top, height}) {
      const from = Math.max(0, Math.floor(top / ROW) - 5), to = Math.min(rows.length, from + Math.ceil(height / ROW) + 10);
      const counts = new Map(STATUSES.map(each => [each, 0]));
      for (const each of cases) counts.set(each.status, counts.get(each.status) + 1);
      return html`<div class="tools">
        <label>Search <input type="search" id="search" value=${state.q} placeholder="words, -word, suite:name"
          onInput=${event => set({q: event.target.value})} /></label>
        <div class="chips" role="group" aria-label="Show only">${STATUSES.filter(each => counts.get(each)).map(each => html`
          <button type="button" aria-pressed=${String(state.only.includes(each))} onClick=${() => set({only:
            state.only.includes(each) ? state.only.filter(one => one !== each) : [...state.only, each]})}>
            ${each} ${counts.get(each).toLocaleString('en')}</button>`)}</div>
        <label>Group by <select value=${state.group} onChange=${event => set({group: event.target.value})}>
          ${['cause', 'suite', 'status'].map(each => html`<option value=${each}>${each}</option>`)}</select></label>
        <span role="status">${shown.toLocaleString('en')} of ${cases.length.toLocaleString('en')} cases</span></div>
        <nav class="rows" aria-label="Cases" tabindex="0" ref=${box => { this.box = box; }}
          onScroll=${event => this.setState({top: event.target.scrollTop})}>
          <ul style=${{height: rows.length * ROW + 'px'}}>${rows.slice(from, to).map((each, at) => {
            const style = {top: (from + at) * ROW + 'px'};
            if (!each.key) return html`<li key=${'g' + each.title} class="group" style=${style}>
              ${each.count.toLocaleString('en')} \u00d7 <bdi>${seen(each.title)}</bdi></li>`;
            return html`<li key=${each.key} style=${style}>${live && html`<${live.Pick} row=${each} />`}<a class=${'entry ' + each.kind}
              href=${address({...state, open: each.key, head: null, base: null})}
              aria-current=${state.open === each.key ? 'page' : undefined}>
              <span class="sign" aria-hidden="true">${SIGNS[each.kind]}</span> <bdi>${seen(each.id)}</bdi>
              <small>${each.status}${each.head.length > 1 ? html` <${Strip} runs=${each.head} />` : ''}${' '}
                <bdi>${seen(each.why)}</bdi></small></a></li>`;
          })}</ul></nav>`;
    }
  }
  const Strip = ({runs}) => html`<span class="strip" role="img" aria-label=${[...runs].filter(each => each === 'p').length +
    ' of ' + runs.length + ' runs passed'}>${[...runs].slice(0, 20).map(each => html`<i class=${RUNS[each][2]}></i>`)}</span>`;

  // --- one case --------------------------------------------------------------------------------
  // Calls of three columns in rows: expected calls in their order, and what a side called besides where it called it.
  const matched = (expected, calls) => {
    const free = new Set(calls.keys()), found = expected.map(() => null);
    for (const alike of [(a, b) => a[0] === b[0] && same(a[1], b[1]), (a, b) => a[0] === b[0]]) {
      expected.forEach((call, at) => {
        if (found[at] !== null) return;
        for (const other of free) {
          if (alike(call, calls[other])) { found[at] = other; free.delete(other); return; }
        }
      });
    }
    return {found, free};
  };
  const rowsOf = (expected, sides) => {
    const known = sides.map(calls => matched(expected, calls));
    const rows = expected.map((call, at) => ({expected: call, sides: sides.map((calls, side) =>
      known[side].found[at] === null ? null : calls[known[side].found[at]])}));
    const extra = sides.map((calls, side) => [...known[side].free].map(at => calls[at]));
    while (extra.some(each => each.length)) {
      const call = extra.find(each => each.length)[0];
      rows.push({expected: null, sides: extra.map(each => {
        const at = each.findIndex(other => other[0] === call[0]);
        return at < 0 ? null : each.splice(at, 1)[0];
      })});
    }
    return rows;
  };
  const Call = ({call, other}) => html`<code class="call"><b>${seen(call[0])}</b>(${Object.entries(call[1] || {}).map(
    ([name, value], at) => {
      const differs = other && !same(value, (other[1] || {})[name]);
      return html`${at ? ', ' : ''}${seen(name)}=<span class=${differs ? 'differs' : ''}>${seen(json(value))}</span>`;
    })}${other && Object.keys(other[1] || {}).filter(name => !(name in (call[1] || {}))).map(name =>
      html` <span class="differs">no ${seen(name)}</span>`)})</code>${call[2] === null || call[2] === undefined ? '' :
      html`<details><summary>returned</summary><pre dir="auto" tabindex="0">${seen(JSON.stringify(call[2], null, 2))}</pre></details>`}`;
  const Cell = ({call, expected, asked}) => call === null ?
    html`<td class=${expected ? 'gone' : ''}>${expected ? 'not called' : ''}</td>` :
    html`<td class=${asked && (!expected || !same(expected[1], call[1])) ? 'come' : ''}>
      <${Call} call=${call} other=${expected} /></td>`;
  const WORDS = 20000;
  const pieces = (left, right) => left === right || left.length + right.length > WORDS ? null :
    Diff.diffWordsWithSpace(left, right);
  const Answer = ({text, other, mark, note}) => {
    if (text === null || text === undefined) return html`<td class="answer"><em>${note || 'no answer'}</em></td>`;
    const found = other === null || other === undefined ? null : pieces(...(mark === 'del' ? [text, other] : [other, text]));
    return html`<td class="answer" dir="auto">${found === null ? seen(text) : found.map(each =>
      mark === 'del' ? each.added ? '' : each.removed ? html`<del>${seen(each.value)}</del>` : seen(each.value) :
        each.removed ? '' : each.added ? html`<ins>${seen(each.value)}</ins>` : seen(each.value))}</td>`;
  };
  const seconds = turn => turn && turn.s ? html`<span class="dim">${turn.s[0].toFixed(turn.s[0] < 10 ? 2 : 0)} s${
    turn.s[1] ? `, models ${turn.s[1].toFixed(2)} s` : ''}${turn.s[2] ? `, tools ${turn.s[2].toFixed(2)} s` : ''}</span>` : '';
  const Scores = ({turn}) => html`<td class="dim">${turn ? turn.scores.map(([name, value, met], at) =>
    html`${at ? ', ' : ''}<span class=${met === false ? 'bad' : ''}>${seen(name)} ${number(value)}</span>`) : ''}</td>`;

  const Turn = ({at, data, base, head}) => {
    const expected = data.expected[at], sides = [base, head].filter(each => each !== undefined);
    const turns = sides.map(each => each.turns[at]);
    const headTurn = head && head.turns[at], first = expected || headTurn || turns.find(Boolean) || {user: ''};
    const wanted = (expected && expected.calls) || null;
    const rows = rowsOf(wanted || [], turns.map(each => (each && each.calls) || []));
    const column = data.expected.length > 0;
    const answers = turns.map(each => each ? each.answer : undefined);
    const compared = expected && expected.answer !== null ? expected.answer : base && head && turns[0] ? turns[0].answer : null;
    const said = [...new Set(sides.map(each => (each.turns[at] || {}).user).filter(each => each && each !== first.user))];
    return html`<section class="turn"><h2>Turn ${at + 1} ${seconds(headTurn)}</h2>
      <div class="user" dir="auto">${seen(first.user)}</div>${said.map(each => html`<div class="user" dir="auto">${seen(each)}</div>`)}
      <div class="scroll" tabindex="0" role="group" aria-label=${'Turn ' + (at + 1)}><table class="sides"><thead><tr>
        ${column && html`<th scope="col">Expected</th>`}${base && html`<th scope="col">Base</th>`}${head && html`<th scope="col">Head</th>`}</tr></thead>
      <tbody>${rows.map(row => html`<tr>${column && html`<td>${row.expected ? html`<${Call} call=${row.expected} />` :
        html`<span class="dim">${wanted ? 'nothing expected' : ''}</span>`}</td>`}${row.sides.map(call =>
        html`<${Cell} call=${call} expected=${row.expected} asked=${wanted} />`)}</tr>`)}
      <tr>${column && html`<${Answer} text=${expected ? expected.answer : null} mark="del"
          other=${head && head.turns[at] ? head.turns[at].answer : null} />`}${turns.map((turn, side) => turn === undefined ?
        html`<td class="gone">This turn was not reached.</td>` :
        html`<${Answer} text=${answers[side]} note=${turn && turn.note} mark="ins" other=${sides[side] === head || expected ? compared : null} />`)}</tr>
      <tr>${column && html`<td></td>`}${turns.map(turn => html`<${Scores} turn=${turn} />`)}</tr></tbody></table></div>
      ${sides.map(each => html`<${Found} label=${each === base ? 'base' : 'head'} run=${each} turn=${at + 1} />`)}
      ${turns.map((turn, side) => turn && turn.said && turn.said.length > 1 ? html`<details><summary>All that was said on
        ${sides[side] === base ? ' the base' : ' head'}: ${turn.said.length} messages</summary><ul>${turn.said.map(([who, text]) =>
          html`<li><b>${seen(who)}</b>: <span dir="auto">${seen(text)}</span></li>`)}</ul></details>` : '')}</section>`;
  };
  const Found = ({run, turn, label}) => {
    const found = run.found.filter(each => (each.turn === null ? 0 : each.turn) === turn && (each.text.trim() || each.samples.length));
    return found.length ? html`<ul class="found">${found.map(each => html`<li><span class="dim">${label}</span> <code>${seen(each.of)}</code>
      ${each.label ? ' ' + seen(each.label) : ''}: ${each.subject ? html`<q>${seen(each.subject)}</q> ` : ''}${seen(each.text)}
      ${each.samples.length ? html`<details><summary>${seen(each.tally)}</summary><ul>${each.samples.map(([word, text]) =>
        html`<li><code>${seen(word)}</code>: ${seen(text)}</li>`)}</ul></details>` : ''}</li>`)}</ul>` : '';
  };
  const Runs = ({side, runs, chosen, pick}) => html`<span class="runs" role="group" aria-label=${'Runs of ' + side}>${side}
    ${runs.map((each, at) => html`<button type="button" class=${RUNS[each.sign][2]} aria-pressed=${String(at === chosen)}
      title=${RUNS[each.sign][1]} aria-label=${`${side} run ${at + 1}: ${RUNS[each.sign][1]}`}
      onClick=${() => pick(at)}>${RUNS[each.sign][0]}</button>`)}</span>`;
  const chosen = (runs, named, wish) => {
    if (named !== null && runs[+named]) return +named;
    const at = runs.findIndex(each => each.sign === wish);
    return at < 0 ? 0 : at;
  };
  const prompt = (row, data, head) => [
    `The evaluation case \`${row.id}\` in \`${row.place}\` does not pass: ${row.why}.`,
    ...(row.cause < 0 ? [] : [`Cause: ${index.causes[row.cause].text}.`]),
    ...data.expected.flatMap((turn, at) => {
      const done = head && head.turns[at];
      const calls = each => (each && each.calls || []).map(call => `${call[0]}(${json(call[1])})`).join('; ') || 'none';
      return [`Turn ${at + 1}. The user: ${turn.user}`, `Expected calls: ${turn.calls ? calls(turn) : 'any'}`,
        `Actual calls: ${calls(done)}`, `Expected answer: ${turn.answer}`, `Actual answer: ${done ? done.answer : 'none'}`];
    }),
    'Find out why the agent does so, and mend the agent, not the expectation.'].join('\n');

  class Case extends Component {
    constructor() { super(); this.state = {data: null, of: '', copied: ''}; }
    componentDidMount() { this.load(); }
    componentDidUpdate() { this.load(); }
    async load() {
      const row = this.props.row;
      if (!row || this.state.of === row.key) return;
      const data = row.part === undefined ? null : (await part(row.part))[row.at];
      if (this.props.row === row) this.setState({data, of: row.key, copied: ''});
    }
    async copy(what, text) {
      try { await navigator.clipboard.writeText(text); } catch {
        const box = document.createElement('textarea');
        box.value = text;
        document.body.append(box);
        box.select();
        document.execCommand('copy');
        box.remove();
      }
      this.setState({copied: what + ' copied'});
    }
    render({row, state, set}, {data, of, copied}) {
      if (of !== row.key) return html`<p class="dim">Opening ${seen(row.id)}</p>`;
      const top = html`<p><a href=${address({...state, open: ''})}>Overview</a></p><h1 id="title" tabindex="-1" class=${row.kind}><span class="sign">
        ${SIGNS[row.kind]} ${WORDS_OF[row.kind] || row.kind}</span> <span class="dim">${row.status}</span> <bdi>${seen(row.id)}</bdi></h1>
        <p>${data && data.file ? html`<a href=${data.file} rel="noreferrer noopener"><code>${seen(row.place)}</code></a>` :
          html`<code>${seen(row.place)}</code>`}${data && data.origin ? ', ' + seen(data.origin) : ''}</p>`;
      if (!data) return html`${top}<p>${seen(row.why)}</p><p class="dim">The conversation is left out for size: see results.json.</p>`;
      const picked = {head: chosen(data.runs.head, state.head, 'f'), base: chosen(data.runs.base, state.base, 'p')};
      const head = data.runs.head[picked.head], base = data.runs.base[picked.base];
      const length = Math.max(data.expected.length, ...[head, base].map(each => each ? each.turns.length : 0));
      return html`${top}
        <p class="buttons"><button type="button" id="copy-link" onClick=${() => this.copy('Link', location.href)}>Copy link</button>
        <button type="button" onClick=${() => this.copy('Command', `evalgate run '${`${row.file}:${row.id}`.replaceAll("'", "'\\''")}'`)}>Copy command</button>
        <button type="button" onClick=${() => this.copy('Prompt', prompt(row, data, head))}>Copy prompt</button> <span role="status">${copied}</span></p>
        ${live && html`<${live.Tools} row=${row} runs=${data.runs.head.length} />`}
        ${row.cause >= 0 && html`<p>Cause: <bdi>${seen(index.causes[row.cause].text)}</bdi></p>`}
        <p>${data.runs.head.length > 0 && html`<${Runs} side="Head" runs=${data.runs.head} chosen=${picked.head} pick=${at => set({head: at})} />`} ${
          data.runs.base.length > 0 && html`<${Runs} side="Base" runs=${data.runs.base} chosen=${picked.base} pick=${at => set({base: at})} />`}</p>
        <div class="scroll" tabindex="0" role="group" aria-label="Criteria of the case"><table><thead><tr><th scope="col">Criterion</th>
          ${data.runs.base.length > 0 && html`<th scope="col" class="n">Base</th>`}<th scope="col" class="n">Head</th><th scope="col" class="n">Threshold</th><th scope="col">Not measured</th></tr></thead>
          <tbody>${data.criteria.map(each => html`<tr><td><code>${seen(each.name)}</code></td>
          ${data.runs.base.length > 0 && html`<td class="n">${number(each.base)}</td>`}<td class=${'n ' + (each.kind === 'fail' ? 'bad' : '')}>
          ${each.kind ? SIGNS[each.kind] + ' ' : ''}${each.shown}</td><td class="n">${number(each.threshold)}</td><td>${seen(each.why)}</td></tr>`)}</tbody></table></div>
        ${data.scenario && html`<p><b>Scenario.</b> <span dir="auto">${seen(data.scenario[0])}</span></p><p dir="auto">${seen(data.scenario[1])}</p>`}
        ${data.note && html`<p>${seen(data.note)}</p>`}
        ${[['Head', head], ['Base', base]].map(([side, each]) => each && each.failure ? html`<p><strong>${side}: ${seen(each.failure[0])}</strong></p>
          ${each.failure[1].length > 200 ? html`<pre dir="auto" tabindex="0">${seen(each.failure[1])}</pre>` : ''}
          ${each.failure[2].trim() ? html`<pre dir="auto" tabindex="0">${seen(each.failure[2])}</pre>` : ''}` : '')}
        ${[['head', head], ['base', base]].map(([side, each]) => each && html`<${Found} label=${side} run=${each} turn=${0} />`)}
        ${[['head', head], ['base', base]].map(([side, each]) => each && Object.entries(each.grades).filter(([, grade]) => Array.isArray(grade)).map(
          ([name, grade]) => html`<p class="dim">${side}: <code>${seen(name)}</code> not evaluated: ${seen(grade[1] || grade[0])}</p>`))}
        ${Array.from({length}, (_, at) => html`<${Turn} key=${at} at=${at} data=${data} base=${base} head=${head} />`)}
        ${head && head.state && Object.keys(head.state).length > 0 && html`<details><summary>Session state at the end</summary>
          <pre tabindex="0">${seen(JSON.stringify(head.state, null, 2))}</pre></details>`}
        <p class="dim">${head ? `Head run ${picked.head + 1}: ${head.seconds.toFixed(1)} s${head.tokens === null ? '' : `, ${head.tokens.toLocaleString('en')} tokens`}` : ''}${
          base ? `; base run ${picked.base + 1}: ${base.seconds.toFixed(1)} s${base.tokens === null ? '' : `, ${base.tokens.toLocaleString('en')} tokens`}` : ''}</p>`;
    }
  }

  // --- all together ----------------------------------------------------------------------------
  const overview = document.getElementById('overview'), place = document.getElementById('case'), list = document.getElementById('list');
  document.body.classList.add('live');
  let state = read(), made = {}, rows = [], shown = 0;
  const arrange = () => {
    const wanted = state.q + '\n' + state.only + '\n' + state.group;
    if (made === wanted) return;
    made = wanted;
    const asked = terms(state.q);
    const found = cases.filter(each => (!state.only.length || state.only.includes(each.status)) && fits(each, asked));
    const groups = new Map();
    for (const each of found) {
      const name = title(each, state.group);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(each);
    }
    rows = [...groups].flatMap(([name, own]) => [{title: name, count: own.length}, ...own]);
    shown = found.length;
  };
  const set = change => {
    state = {...state, ...change};
    history.replaceState(null, '', address(state));
    draw();
  };
  const draw = () => {
    arrange();
    const row = state.open ? cases.find(each => each.key === state.open) : undefined;
    render(html`<${List} rows=${rows} shown=${shown} state=${state} set=${set} />`, list);
    render(row ? html`<${Case} row=${row} state=${state} set=${set} />` :
      state.open ? html`<p role="alert">There is no case ${seen(state.open)} in this report.</p>` : '', place);
    overview.hidden = Boolean(row);
  };
  addEventListener('hashchange', () => {
    const before = state.open;
    state = read();
    draw();
    if (state.open !== before) document.getElementById('page').scrollTop = 0;
  });
  const step = (by, wanted) => {
    const entries = rows.filter(each => each.key && (!wanted || each.kind !== 'pass'));
    const at = entries.findIndex(each => each.key === state.open);
    const next = entries[at < 0 ? (by > 0 ? 0 : entries.length - 1) : at + by];
    if (next) location.hash = address({...state, open: next.key, head: null, base: null});
  };
  const turnRun = side => {
    const buttons = [...document.querySelectorAll(`.runs[aria-label="Runs of ${side}"] button`)];
    const at = buttons.findIndex(each => each.getAttribute('aria-pressed') === 'true');
    if (buttons.length > 1) buttons[(at + 1) % buttons.length].click();
  };
  const KEYS = {'/': () => document.getElementById('search').focus(), n: () => step(1, true), p: () => step(-1, true),
    j: () => step(1), k: () => step(-1), h: () => turnRun('Head'), b: () => turnRun('Base'),
    c: () => document.getElementById('copy-link')?.click(), o: () => { location.hash = address({...state, open: ''}); }};
  addEventListener('keydown', event => {
    if (event.target.matches('input, select, textarea')) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  for (const each of document.querySelectorAll('[data-cause]')) {
    const cause = index.causes[+each.dataset.cause];
    const first = cases.find(one => one.cause === +each.dataset.cause);
    if (!cause || !first) continue;
    const link = document.createElement('a');
    link.href = address({...state, open: first.key});
    link.textContent = each.textContent;
    each.replaceChildren(link);
  }
  draw();
  live?.start({cases, draw, seen, address, state: () => state, shown: () => rows.filter(each => each.key)});
})();
