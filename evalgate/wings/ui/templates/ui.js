// What `evalgate ui` adds to the page: a bar above it, a box before each case, and what changes a case. The page's own
// script (reports/templates/report.js) shows `Pick` and `Tools`, and calls `start`. Nothing is ever set as HTML.
globalThis.evalgateLive = (() => {
  'use strict';
  const {html, render, Component} = htmPreact;
  const given = new URLSearchParams(location.search);
  const head = given.get('head') || '';
  const SIGNS = {pass: '✓', fail: '✗', inconclusive: '?', not_measured: '⚠'};
  const WORDS = {pass: 'pass', fail: 'fail', inconclusive: 'inconclusive', not_measured: 'not measured'};
  const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
  let host = null, known = null, bar = null, box = null, panel = null;
  const picked = new Set(), now = new Map();
  const at = {run: null, number: 0, lost: false, error: '', scored: null, dialog: null, finished: false, panel: false, draft: false, asking: false, live: null, rebuilding: false};

  const ask = async (name, body) => {
    const answer = await fetch('/api/' + name, body === undefined ? {} : {method: 'POST', body: JSON.stringify(body),
      headers: {'content-type': 'application/json'}});
    const told = await answer.json().catch(() => ({error: answer.statusText || 'no answer', hint: ''}));
    if (!answer.ok) throw new Error([told.error, told.hint].filter(Boolean).join('\n'));
    return told;
  };
  // Does what a button says; what goes wrong is told in the bar, or in the dialog where one is open.
  const attempt = async (doing, tell = message => { at.error = message; }) => {
    tell('');
    try { return await doing(); } catch (error) { tell(error.message); } finally { draw(); }
  };
  const draw = () => {
    if (!bar) return;
    render(html`<${Bar} />`, bar);
    render(at.dialog ? html`<${at.dialog.kind} key=${at.dialog.key} ...${at.dialog} />` : '', box);
    if (at.dialog && !box.open) box.showModal();
    if (!at.dialog && box.open) box.close();
    document.body.classList.toggle('talking', at.panel);
    panel.hidden = !at.panel;
    render(at.panel ? html`<${Chat} now=${Date.now()} />` : '', panel);
    host.draw();
  };
  const open = (kind, more = {}) => {
    at.dialog = {kind, key: Date.now(), ...more};
    draw();
  };
  const close = () => {
    at.dialog = null;
    draw();
    if (at.finished) location.reload();
  };
  const split = key => { const row = host.cases.find(each => each.key === key); return [row.file, row.id]; };

  // --- the list and the case ---------------------------------------------------------------------
  const Pick = ({row}) => {
    if (!known) return '';
    const kind = now.get(row.key);
    return html`<label class="pick"><input type="checkbox" aria-label=${'Select ' + host.seen(row.id)}
      checked=${picked.has(row.key)} onChange=${event => {
        if (event.target.checked) picked.add(row.key); else picked.delete(row.key);
        draw();
      }} />${kind && html`<span class=${'now ' + kind} title=${'ran now: ' + WORDS[kind]}>${SIGNS[kind]}</span>`}</label>`;
  };
  const Tools = ({row, runs}) => {
    if (!known) return '';
    const busy = !writable() || (at.run && at.run.running);
    return html`<p class="buttons"><button type="button" id="run-case" class="strong" disabled=${busy}
        onClick=${() => run('selected', [[row.file, row.id]])}>Run this case</button>
      <button type="button" id="accept" disabled=${!writable()} onClick=${() => open(Accept, {row, runs})}>Accept…</button>
      <button type="button" id="edit" disabled=${!writable()} onClick=${() => open(Edit, {row})}>Edit…</button>
      <button type="button" id="delete" disabled=${!writable()} onClick=${() => open(Delete, {row})}>Delete…</button></p>`;
  };
  const writable = () => known && !known.readOnly && !at.lost;
  const run = (which, cases = []) => attempt(() => ask('run', {which, cases, scored: at.scored && [...at.scored]}));

  const rebuild = () => {
    at.rebuilding = true;
    return attempt(() => ask('rebuild', {}).finally(async () => {
      at.rebuilding = false;
      known = await ask('state');
    }));
  };

  // --- the bar -----------------------------------------------------------------------------------
  const when = each => `${each.at.slice(0, 16).replace('T', ' ')} ${each.commit}${each.dirty ? '*' : ''} · ${
    plural(each.cases, 'case')} · ${WORDS[each.kind]}${each.complete ? '' : ', interrupted'}`;
  const go = change => {
    const wanted = new URLSearchParams(given);
    for (const [name, value] of Object.entries(change)) if (value) wanted.set(name, value); else wanted.delete(name);
    location.search = String(wanted);
  };
  const names = () => [...new Set(known.suites.flatMap(each => each.criteria))].sort();
  const Sides = () => {
    const own = known.runs.find(each => !head || each.id === head), base = given.get('base') || '';
    return html`<label>Results <select id="head" value=${head} onChange=${event => go({head: event.target.value, base: ''})}>
      <option value="">the newest of each case</option>${known.runs.map(each => html`<option value=${each.id}>${when(each)}</option>`)}
      </select></label> <label>Compare with <select id="base" value=${base} onChange=${event => go({base: event.target.value})}>
      <option value="">${own && own.base ? 'the base of its run' : 'nothing'}</option>
      ${own && own.base && html`<option value="none">nothing</option>`}${known.runs.filter(each => each.id !== head).map(each => html`
        <option value=${each.id}>${when(each)}</option>${each.base && html`<option value=${each.id + ':base'}>base of ${when(each)}</option>`}`)}
      </select></label>`;
  };
  const Scored = () => html`<details class="menu"><summary>Criteria${at.scored ? `: ${at.scored.size} of ${names().length}` : ': all'}</summary>
    <fieldset><legend>Scored in the next run</legend>${names().map(name => html`<label><input type="checkbox"
      checked=${!at.scored || at.scored.has(name)} onChange=${event => {
        const chosen = new Set(at.scored || names());
        if (event.target.checked) chosen.add(name); else chosen.delete(name);
        at.scored = chosen.size === names().length ? null : chosen;
        draw();
      }} /> <code>${host.seen(name)}</code></label>`)}<p class="dim">A case is not measured without the others.</p></fieldset></details>`;
  const Progress = () => {
    const {run: told} = at;
    if (at.lost) return html`<span class="bad">evalgate ui has ended: start it again.</span>`;
    if (!told) return '';
    const counts = Object.entries(told.counts).map(([kind, count]) => `${count} ${WORDS[kind]}`).join(', ');
    if (told.running) {
      const left = told.total ? `${told.done} of ${plural(told.total, told.why ? 'rerun' : 'trial')}${told.why && `, ${told.why}`}` : 'starting';
      return html`<progress max=${told.total || 1} value=${told.total ? told.done : undefined} aria-label="Progress of the run"></progress>
        <span>${told.stopping ? 'stopping: ' : ''}${left}${counts && ': ' + counts}${told.usd ? `, $${told.usd.toFixed(2)}` : ''}</span>`;
    }
    if (told.error) return html`<span class="bad">${host.seen(told.error.message)} ${host.seen(told.error.hint)}</span>`;
    if (!told.verdict) return '';
    const more = at.finished && html` <button type="button" id="show-results" onClick=${() => location.reload()}>Show the results</button>`;
    return html`<span>Last run: ${told.verdict.complete ? WORDS[told.verdict.kind] : 'stopped; the next run continues it'}${
      counts && ` (${counts})`}${more}</span>`;
  };
  const Bar = () => {
    const busy = Boolean(at.run && at.run.running), off = busy || !writable();
    const chosen = [...picked];
    return html`<div class="line"><b>evalgate ui</b>${known.readOnly ? html`<span class="badge not_measured">read-only</span>` : ''}<${Sides} /></div>
      <div class="line"><button type="button" id="run-all" class="strong" disabled=${off} onClick=${() => run('all')}>Run all</button>
      <button type="button" id="run-failed" disabled=${off} onClick=${() => run('failed')}>Run failed</button>
      <button type="button" id="run-selected" disabled=${off || !chosen.length} onClick=${() => run('selected', chosen.map(split))}>
        Run selected (${chosen.length.toLocaleString('en')})</button>
      <button type="button" id="rebuild" disabled=${off || at.rebuilding} title="After a change of the code: read all files again, start the agent anew, and run all cases, whatever was measured before"
        onClick=${rebuild}>${at.rebuilding ? 'Rebuilding' : 'Rebuild all'}</button>
      <button type="button" id="select" onClick=${() => {
        const shown = host.shown().map(each => each.key), all = shown.every(key => picked.has(key));
        for (const key of shown) if (all) picked.delete(key); else picked.add(key);
        draw();
      }}>Select shown</button>
      <button type="button" id="stop" disabled=${!busy || at.run.stopping || at.lost} onClick=${() => attempt(() => ask('stop', {}))}>Stop</button>
      <${Scored} />
      <button type="button" id="chat" disabled=${!writable()} aria-expanded=${at.panel} onClick=${() => talk(!at.panel)}>Chat</button>
      ${known.waiting.length > 0 && html`<button type="button" id="waiting" onClick=${() => open(Waiting)}>Proposed changes (${known.waiting.length})</button>`}
      <span class="told" role="status"><${Progress} /></span></div>
      ${at.error && html`<p class="bad" role="alert">${host.seen(at.error)}</p>`}
      ${at.run && at.run.lines.length > 0 && html`<details class="log"><summary>${plural(at.run.lines.length, 'line')} of the run</summary>
        <pre tabindex="0">${at.run.lines.map(host.seen).join('\n')}</pre></details>`}
      ${known.problems.length > 0 && html`<details class="log"><summary>${plural(known.problems.length, 'remark')} about files and settings</summary>
        <ul>${known.problems.slice(0, 200).map(each => html`<li>${host.seen(each)}</li>`)}</ul></details>`}`;
  };

  // --- dialogs -----------------------------------------------------------------------------------
  const Frame = ({title, children, error, buttons}) => html`<h2 id="dialog-title"><bdi>${title}</bdi></h2>${children}
    ${error && html`<p class="bad" role="alert">${host.seen(error)}</p>`}
    <p class="buttons">${buttons}<button type="button" id="close" onClick=${close}>Close</button></p>`;
  const LONGEST = 20000;
  const Answer = ([before, then]) => before.length + then.length > LONGEST ? [html`<del>${host.seen(before)}</del>`, ' ', html`<ins>${host.seen(then)}</ins>`] :
    Diff.diffWordsWithSpace(before, then).map((each, at, all) => each.added ?
      html`${at && all[at - 1].removed ? ' ' : ''}<ins>${host.seen(each.value)}</ins>` :
      each.removed ? html`<del>${host.seen(each.value)}</del>` : host.seen(each.value));
  const Change = ({change, many}) => html`${many && html`<h3>Turn ${change.turn + 1}</h3>`}
    ${change.calls && html`<p class="label">Tool calls: - as expected until now, + as the agent called</p><pre class="calls" tabindex="0">${change.calls.map(([mark, text]) =>
      html`<span class=${'row' + (mark === '+' ? ' come' : mark === '-' ? ' gone' : '')}>${mark} ${host.seen(text)}</span>`)}</pre>`}
    ${change.answer && html`<p class="label">The answer: what was expected until now struck out, what the agent said underlined</p>
      <pre dir="auto" tabindex="0">${Answer(change.answer)}</pre>`}`;
  const done = () => { at.finished = true; close(); };  // what the page shows is of before

  class Accept extends Component {
    constructor(props) { super(props); this.state = {what: '', run: '', found: null, error: ''}; }
    componentDidMount() { this.look({}); }
    order(state) {
      return {suite: this.props.row.file, case: this.props.row.id, head, parts: state.what ? state.what.split(' ') : [],
        run: state.run ? Number(state.run) : null};
    }
    look(change) {
      const state = {...this.state, ...change, found: null};
      this.setState(state);
      attempt(async () => this.setState({found: await ask('accept', this.order(state))}), error => this.setState({error}));
    }
    write() {
      attempt(async () => {
        await ask('accept', {...this.order(this.state), version: this.state.found.version});
        done();
      }, error => this.setState({error}));
    }
    render({row, runs}, {what, run, found, error}) {
      return html`<${Frame} title=${'Accept ' + host.seen(row.id)} error=${error} buttons=${html`<button type="button" id="do-accept"
          class="strong" disabled=${!found} onClick=${() => this.write()}>Accept</button>`}>
        <p>What the agent did becomes what the case expects. The pull request will show that it changed.</p>
        <p class="fields"><label>Take <select value=${what} onChange=${event => this.look({what: event.target.value})}>
          <option value="">what its criteria found wrong</option><option value="calls">the tool calls</option>
          <option value="answer">the answers</option><option value="calls answer">both</option></select></label>
        <label>of <select value=${run} onChange=${event => this.look({run: event.target.value})}><option value="">its runs, which agree</option>
          ${Array.from({length: runs}, (_, number) => html`<option value=${number + 1}>run ${number + 1}</option>`)}</select></label></p>
        <div class="changes">${found && found.changes.map(each => html`<${Change} change=${each} many=${found.changes.length > 1 || each.turn > 0} />`)}</div><//>`;
    }
  }

  class Waiting extends Component {
    constructor(props) { super(props); this.state = {error: ''}; }
    decide({name, version}, accept) {
      attempt(async () => {
        await ask('decide', {change: name, version, accept});
        known.waiting = known.waiting.filter(each => each.name !== name);
        at.finished = at.finished || accept;
        if (!known.waiting.length) close();
      }, error => this.setState({error}));
    }
    render(_, {error}) {
      return html`<${Frame} title="Proposed changes" error=${error}>
        <p>An assistant may not make these alone: what fails now may pass after them.</p>
        ${known.waiting.map(each => html`<section class="waiting"><h3><bdi>${host.seen(each.name)}</bdi></h3>
          ${each.reasons.map(reason => html`<p>${host.seen(reason)}</p>`)}
          <pre class="calls" tabindex="0">${each.diff.split('\n').map(line => html`<span class=${'row' + (line[0] === '+' ? ' come' : line[0] === '-' ? ' gone' : '')}>${host.seen(line)}</span>`)}</pre>
          <p class="buttons"><button type="button" class="strong accept-change" disabled=${!writable()} onClick=${() => this.decide(each, true)}>Accept</button>
          <button type="button" class="reject-change" disabled=${!writable()} onClick=${() => this.decide(each, false)}>Reject</button></p></section>`)}<//>`;
    }
  }

  class Edit extends Component {
    constructor(props) { super(props); this.state = {found: null, error: '', answers: {}, calls: {}, rubrics: null}; }
    componentDidMount() {
      const {row} = this.props;
      attempt(async () => {
        const found = await ask('case', {suite: row.file, case: row.id});
        this.setState({found, rubrics: found.rubrics});
      }, error => this.setState({error}));
    }
    save() {
      const {row} = this.props, {found, answers, calls, rubrics} = this.state;
      attempt(async () => {
        const parsed = {};
        for (const [turn, text] of Object.entries(calls)) {
          try { parsed[turn] = JSON.parse(text || '[]'); } catch (error) { throw new Error(`Calls of turn ${+turn + 1}: ${error.message}`); }
          if (!Array.isArray(parsed[turn])) throw new Error(`Calls of turn ${+turn + 1}: expected a list: [{"name": ..., "args": {...}}]`);
        }
        const same = JSON.stringify(rubrics) === JSON.stringify(found.rubrics);
        await ask('edit', {suite: row.file, case: row.id, version: found.version, answers, calls: parsed,
          rubrics: same ? null : rubrics.map(each => [each.id, each.text])});
        done();
      }, error => this.setState({error}));
    }
    render({row}, {found, error, answers, calls, rubrics}) {
      const change = (at, more) => this.setState({rubrics: rubrics.map((each, one) => one === at ? {...each, ...more} : each)});
      return html`<${Frame} title=${'Edit ' + host.seen(row.id)} error=${error} buttons=${html`<button type="button" id="save"
          class="strong" disabled=${!found} onClick=${() => this.save()}>Save</button>`}>
        ${found && found.turns.map((turn, at) => html`<fieldset><legend>Turn ${at + 1}</legend><div class="user" dir="auto">${host.seen(turn.user)}</div>
          <label>Expected answer<textarea dir="auto" rows="4" value=${at in answers ? answers[at] : turn.answer || ''}
            onInput=${event => this.setState({answers: {...answers, [at]: event.target.value}})}></textarea></label>
          <label>Expected calls, as JSON<textarea class="code" spellcheck="false" rows="5" placeholder="nothing is expected of calls"
            value=${at in calls ? calls[at] : turn.calls === null ? '' : JSON.stringify(turn.calls, null, 1)}
            onInput=${event => this.setState({calls: {...calls, [at]: event.target.value}})}></textarea></label></fieldset>`)}
        ${found && !found.turns.length && html`<p>A simulated user speaks: its scenario is changed in the file.</p>`}
        ${rubrics && html`<fieldset><legend>Rubrics</legend>${rubrics.map((each, at) => html`<div class="rubric"><label>Id
            <input value=${each.id} onInput=${event => change(at, {id: event.target.value})} /></label><label>Text
            <textarea rows="2" dir="auto" value=${each.text} onInput=${event => change(at, {text: event.target.value})}></textarea></label>
            <button type="button" onClick=${() => this.setState({rubrics: rubrics.filter((_, one) => one !== at)})}>Remove</button></div>`)}
          <button type="button" id="add-rubric" onClick=${() => this.setState({rubrics: [...rubrics, {id: `rubric_${rubrics.length + 1}`, text: ''}]})}>Add a rubric</button></fieldset>`}<//>`;
    }
  }

  class Delete extends Component {
    constructor(props) { super(props); this.state = {error: ''}; }
    render({row}, {error}) {
      const remove = () => attempt(async () => {
        const {version} = await ask('case', {suite: row.file, case: row.id});
        await ask('delete', {suite: row.file, case: row.id, version});
        location.hash = host.address({...host.state(), open: ''});
        done();
      }, message => this.setState({error: message}));
      return html`<${Frame} title=${'Delete ' + host.seen(row.id)} error=${error} buttons=${html`<button type="button" id="do-delete"
        class="strong" onClick=${remove}>Delete</button>`}><p>The case is taken out of <code>${host.seen(row.file)}</code>. Its earlier
        results stay in the runs that are kept.</p><//>`;
    }
  }

// --- the chat, a panel beside the page ----------------------------------------------------------
  const MOST_BYTES = 5e6, PICTURES = /^image\/(png|jpeg|gif|webp)$/, CONFIRMS = 'adk_request_confirmation';
  const took = seconds => seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
  const written = any => host.seen(typeof any === 'string' ? any : JSON.stringify(any, null, 1) || '').slice(0, LONGEST);
  const Call = ({name, args}) => html`<code class="call"><b>${host.seen(name)}</b>(${Object.entries(args).map(([key, arg], place) =>
    html`${place ? ', ' : ''}<span class="arg">${host.seen(key)}=${written(JSON.stringify(arg))}</span>`)})</code>`;

  // A picture is shown, a text where somebody opens it, anything else is only saved.
  class File extends Component {
    constructor() { super(); this.state = {src: '', text: null, error: ''}; }
    componentDidMount() { if (this.picture()) this.load(({mime, data}) => this.setState({src: `data:${mime};base64,${data}`})); }
    picture() { return PICTURES.test(this.props.file.mime) && this.props.file.number !== null; }
    load(use) { return attempt(async () => use(await ask('chat-file', {number: this.props.file.number})), error => this.setState({error})); }
    render({file, name}, {src, text, error}) {
      const save = () => this.load(({data}) => {
        const link = document.createElement('a');
        link.href = 'data:application/octet-stream;base64,' + data;
        link.download = name;
        link.click();
      });
      const read = ({data}) => this.setState({text: new TextDecoder().decode(Uint8Array.from(atob(data), one => one.charCodeAt(0)))});
      return html`<div class="file">${src && html`<img src=${src} alt=${host.seen(name)} />`}
        <span><bdi>${host.seen(name)}</bdi> <small>${host.seen(file.mime)}, ${plural(file.size, 'byte')}</small></span>
        ${file.number === null ? html` <em>too large to be kept</em>` : html` <button type="button" aria-label=${'Save ' + host.seen(name)} onClick=${save}>Save</button>`}
        ${file.number !== null && file.mime.startsWith('text/') && text === null && html` <button type="button" aria-label=${'Show ' + host.seen(name)} onClick=${() => this.load(read)}>Show</button>`}
        ${text !== null && html`<pre tabindex="0" dir="auto">${written(text)}</pre>`}${error && html`<span class="bad">${error}</span>`}</div>`;
    }
  }

  // Agents, what each asked its model, and the tools that an answer called. An agent that a tool ran is below the call,
  // any other below its parent.
  const treeOf = entries => {
    const top = [], agents = new Map(), parents = new Map(), calls = [];
    const walk = (node, above) => {
      if (!node || parents.has(node.name)) return;
      parents.set(node.name, above);
      for (const child of node.agents || []) walk(child, node.name);
    };
    walk((entries.find(entry => entry.kind === 'agents') || {}).root, null);
    const agentOf = (name, at) => {
      const call = parents.has(name) ? null : calls.findLast(other => other.agent !== name && (other.s === undefined || at <= other.at + other.s));
      const key = (call ? calls.indexOf(call) : '') + '\n' + name;
      if (!agents.has(key)) {
        const node = {kind: 'agent', name, below: []}, above = parents.get(name);
        agents.set(key, node);
        (call ? call.below : above ? agentOf(above, at).below : top).push(node);
      }
      return agents.get(key);
    };
    for (const entry of entries.filter(({kind}) => kind === 'model' || kind === 'tool')) {
      const node = {...entry, below: []}, owner = agentOf(String(entry.agent), entry.at);
      if (entry.kind === 'tool') calls.push(node);
      else {
        node.name = entry.name || entry.request?.model || owner.model?.name;  // a later request says only what is new
        owner.model = node;
      }
      (entry.kind === 'tool' && owner.model || owner).below.push(node);
    }
    return top;
  };
  const ends = node => [...node.s === undefined ? [] : [node.at + node.s], ...node.below.flatMap(ends)];
  const begins = node => [...node.at === undefined ? [] : [node.at], ...node.below.flatMap(begins)];
  const Node = ({node}) => {
    const until = ends(node), from = begins(node), parts = ['args', 'request', 'response', 'error'].filter(part => node[part] !== undefined);
    const title = html`${node.kind === 'model' ? 'model call' : node.kind} ${node.name && html`<code>${host.seen(String(node.name))}</code>`} <small>${until.length ? took(Math.max(0, node.s === undefined ? Math.max(...until) - Math.min(...from) : node.s)) : 'no answer'}</small>${node.error && html` <span class="bad">failed</span>`}`;
    return html`<li>${parts.length ? html`<details><summary>${title}</summary>${parts.map(part => html`<p class="label">${part}</p><pre tabindex="0">${written(node[part])}</pre>`)}</details>` : title}
      ${node.below.length > 0 && html`<ul>${node.below.map(child => html`<${Node} node=${child} />`)}</ul>`}</li>`;
  };
  class Trace extends Component {
    constructor() { super(); this.state = {tree: null, error: ''}; }
    componentDidCatch(error) { this.setState({tree: null, error: 'The trace cannot be read: ' + error.message}); }
    render({turn, seconds}, {tree, error}) {
      const open = event => event.target.open && !tree && attempt(async () => {
        this.setState({tree: treeOf((await ask('chat-trace', {number: turn})).entries)});
      }, message => this.setState({error: message}));
      return html`<details class="trace" onToggle=${open}><summary>Trace${seconds !== undefined && seconds !== null ? `, ${took(seconds)}` : ''}</summary>
        ${error ? html`<p class="bad">${host.seen(error)}</p>` : tree && (tree.length ? html`<ul>${tree.map(node => html`<${Node} node=${node} />`)}</ul>` : html`<p>Nothing was recorded.</p>`)}</details>`;
    }
  }

  const Reply = ({reply: {name, response}}) => html`<div class="user">${name !== CONFIRMS ? html`<code>${host.seen(name)}</code>: ${written(response)}` : response.confirmed ? 'Approved' : 'Denied'}</div>`;
  // What a call waits for: yes or no, or what came of it.
  const Question = ({question: {id, name, args}, texts, onText, onReply, off}) => {
    const text = texts[id], {originalFunctionCall: call, toolConfirmation: about} = args;
    if (name === 'adk_request_credential') return html`<p>The agent asks for a credential, which cannot be given here.</p>`;
    if (name !== CONFIRMS) {
      return html`<p><${Call} name=${name} args=${args} /></p><p class="fields"><label>What came of it <input value=${text || ''} onInput=${event => onText(event.target.value)} /></label>
        <button type="button" disabled=${off || !text} onClick=${() => onReply(() => ({result: text}))}>Answer</button></p>`;
    }
    const {hint, payload} = about && typeof about === 'object' ? about : {}, asks = payload !== undefined && payload !== null;
    const reply = confirmed => onReply(() => asks ? {confirmed, payload: JSON.parse(text === undefined ? JSON.stringify(payload) : text)} : {confirmed});
    return html`<p>May it call ${call && typeof call === 'object' ? html`<${Call} name=${String(call.name)} args=${call.args || {}} />` : 'a tool'}?
      ${hint && !String(hint).includes('FunctionResponse') && html` <bdi>${written(hint)}</bdi>`}</p>
      ${asks && html`<label>Payload, as JSON<textarea class="code" rows="3" value=${text === undefined ? JSON.stringify(payload, null, 1) : text} onInput=${event => onText(event.target.value)}></textarea></label>`}
      <p class="buttons"><button type="button" class="strong approve" disabled=${off} onClick=${() => reply(true)}>Approve</button>
      <button type="button" class="deny" disabled=${off} onClick=${() => reply(false)}>Deny</button></p>`;
  };

  class Chat extends Component {
    constructor() {
      super();
      this.state = {suite: (known.chat || known.suites.find(each => !each.problem) || {key: ''}).suite, error: '', text: '', files: [], texts: {}, replies: {}, id: '', saved: ''};
      if (!this.state.suite) this.state.suite = (known.suites.find(each => !each.problem) || {key: ''}).key;
    }
    componentDidMount() { (panel.querySelector('#message') || panel.querySelector('select'))?.focus(); }
    componentDidUpdate() {
      const log = panel.querySelector('.talk'), {text, files, replies} = this.state;
      at.draft = Boolean(text || files.length || Object.keys(replies).length);
      if (log && this.follows !== false) log.scrollTop = log.scrollHeight;
    }
    ask(name, body, more = {}) {
      at.asking = true;
      this.setState({saved: ''});
      return attempt(async () => {
        const told = this.told = await ask(name, body);
        if ('turns' in told) known.chat = told;
        if ('chat' in told) known.chat = null;
        this.setState(more);
      }, error => this.setState({error})).then(() => { at.asking = false; return listened(at.live); });
    }
    say(body) {
      this.follows = true;
      return this.ask('chat-say', body, {text: '', files: [], texts: {}, replies: {}});
    }
    attach(event) {
      const field = event.target;
      attempt(async () => {
        const files = [...this.state.files];
        for (const file of field.files) {
          const bytes = new Uint8Array(await file.arrayBuffer()), url = await new Promise((done, fail) => {
            const reader = new FileReader();
            reader.onload = () => done(reader.result);
            reader.onerror = () => fail(reader.error);
            reader.readAsDataURL(file);
          });
          let mime = file.type.split(';')[0];
          if (!mime) try { new TextDecoder('utf-8', {fatal: true}).decode(bytes); mime = 'text/plain'; } catch { mime = 'application/octet-stream'; }
          files.push({name: file.name, size: file.size, mime, data: url.slice(url.indexOf(',') + 1)});
        }
        if (files.reduce((sum, file) => sum + file.size, 0) > MOST_BYTES) throw new Error(`The files of a message may have ${MOST_BYTES / 1e6} MB.`);
        this.setState({files});
      }, error => this.setState({error})).then(() => { field.value = ''; });
    }
    render(_, {suite, error, text, files, texts, replies, id, saved}) {
      const {chat} = known, live = at.live || {}, busy = Boolean(at.asking || chat && live.busy);
      const send = event => {
        event.preventDefault();
        if (!busy && (text.trim() || files.length)) this.say({text: text.trim() ? text : '', files: files.map(({mime, data}) => ({mime, data}))});
      };
      // several questions are answered at once
      const reply = ({id: call, name}) => response => attempt(async () => {
        const all = {...replies, [call]: {id: call, name, response: response()}};
        this.setState({replies: all});
        if (chat.questions.every(other => other.id in all)) await this.say({replies: Object.values(all)}).then(() => this.componentDidMount());
      }, message => this.setState({error: message}));
      const save = () => this.ask('chat-save', {suite, case: id.trim()}).then(() => {
        if (this.state.error) return;
        at.finished = true;
        this.setState({saved: this.told.case, id: ''});
      });
      const Suites = ({label}) => html`<label>${label} <select value=${suite} onChange=${event => this.setState({suite: event.target.value})}>
        ${known.suites.filter(each => !each.problem).map(each => html`<option value=${each.key}>${host.seen(each.key)}</option>`)}</select></label>`;
      return html`<div class="line"><h2 id="panel-title">Chat with the agent</h2>${chat && html`<button type="button" id="end" onClick=${() => this.ask('chat-end', {})}>End the session</button>`}
          <button type="button" id="close-chat" onClick=${() => talk(false)}>Close</button></div>
        ${error && html`<p class="bad" role="alert">${host.seen(error)}</p>`}
        ${!chat ? html`<p class="fields"><${Suites} label="The agent of" /> <button type="button" id="start" class="strong"
            disabled=${busy || !suite} onClick=${() => this.ask('chat-open', {suite}).then(() => this.componentDidMount())}>${busy ? 'Starting' : 'Start'}</button></p>` : html`
        <p class="dim">The agent of <code>${host.seen(chat.suite)}</code>${chat.tools === 'live' ? ': its tools are called for real' : `, tools: ${chat.tools}`}.</p>
        <div class="talk" role="log" aria-label="Conversation" tabindex="0" onScroll=${({target: log}) => { this.follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40; }}>
          ${chat.turns.map((turn, number) => html`<div key=${number}>${turn.user && html`<div class="user" dir="auto">${host.seen(turn.user)}</div>`}
          ${turn.answers.map(one => html`<${Reply} reply=${one} />`)}${turn.attached.map((file, place) => html`<${File} file=${file} name=${`attached-${place + 1}`} />`)}
          ${turn.calls.filter(call => call.name !== CONFIRMS).map(call => html`<div><${Call} ...${call} /></div>`)}
          <div class="says" dir="auto">${turn.answer === null ? html`<em>${turn.calls.some(call => call.name === CONFIRMS) ? 'asks for confirmation' : 'no answer'}</em>` : host.seen(turn.answer)}</div>
          ${turn.files.map((file, place) => html`<${File} file=${file} name=${`file-${place + 1}`} />`)}
          <${Trace} turn=${number} seconds=${turn.seconds} /></div>`)}
          ${chat.traces > chat.turns.length && html`<${Trace} key="failed" turn=${chat.turns.length} />`}
          ${busy && html`<div class="now" aria-live="off">${(live.calls || []).filter(name => name !== CONFIRMS).map(name => html`<div><code class="call"><b>${host.seen(name)}</b></code></div>`)}
            ${live.busy && live.text ? html`<div class="says" dir="auto">${host.seen(live.text)}</div>` : html`<p class="dim">The agent is at work</p>`}</div>`}</div>
        ${chat.questions.length > 0 && !live.busy && html`<fieldset class="asks"><legend>The agent asks</legend>${chat.questions.map(question => html`<div key=${question.id}>${question.id in replies ? html`<p>Answered.</p>` : html`
          <${Question} question=${question} off=${busy} texts=${texts} onText=${written => this.setState({texts: {...texts, [question.id]: written}})} onReply=${reply(question)} />`}</div>`)}</fieldset>`}
        ${chat.over ? html`<p>The agent failed, which ended the session. What came before can be saved.</p>` : html`<form class="say" onSubmit=${send}><label>Message<textarea id="message" rows="2" dir="auto" value=${text}
            onInput=${event => this.setState({text: event.target.value})} onKeyDown=${event => { if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send(event); }}></textarea></label>
          <button type="submit" id="send" class="strong" disabled=${busy || !text.trim() && !files.length}>Send</button></form>
        <div class="line"><label>Attach files <input type="file" id="attach" multiple onChange=${event => this.attach(event)} /></label>${files.map((file, place) => html`<span class="told"><bdi>${host.seen(file.name)}</bdi>
          <button type="button" aria-label=${'Remove ' + host.seen(file.name)} onClick=${() => this.setState({files: files.filter((_, other) => other !== place)})}>Remove</button></span>`)}</div>`}
        ${Object.keys(chat.state).length > 0 && html`<details id="state"><summary>State: ${plural(Object.keys(chat.state).length, 'variable')}</summary><dl>${Object.entries(chat.state).map(([key, content]) =>
          html`<dt><code>${host.seen(key)}</code></dt><dd><pre tabindex="0">${written(content)}</pre></dd>`)}</dl></details>`}
        ${chat.artifacts.length > 0 && html`<details id="artifacts" open><summary>${plural(chat.artifacts.length, 'artifact')}</summary>${chat.artifacts.map((one, place) => html`<${File} key=${place}
          file=${one.file || {mime: '', size: 0, number: null}} name=${`${one.name} (version ${one.version})`} />`)}</details>`}
        ${chat.turns.length > 0 && html`<fieldset><legend>Save as a case, which expects what the agent did</legend><p class="fields"><${Suites} label="In" />
          <label>Id <input id="new-id" value=${id} onInput=${event => this.setState({id: event.target.value})} /></label>
          <button type="button" id="save-chat" disabled=${busy || !id.trim()} onClick=${save}>Save</button>
          <span role="status">${saved && 'Saved ' + host.seen(saved)}</span></p></fieldset>`}`}`;
    }
  }
  const talk = isOpen => {
    at.panel = isOpen;
    sessionStorage.setItem('evalgate-chat', isOpen ? '1' : '');
    draw();
    if (isOpen) return;
    bar.querySelector('#chat').focus();
    if (at.finished && !at.dialog) location.reload();
  };
  // The server tells of the turn that is under way, and that something else has changed.
  const listened = async live => {
    at.live = live;
    const {chat} = known, stale = live && !live.busy && (live.serial ? !chat || chat.traces !== live.turns || chat.over !== live.over : chat);
    if (stale && !at.asking) known.chat = (await ask('state').catch(() => known)).chat;
    draw();
  };

  // --- all together ------------------------------------------------------------------------------
  const heard = told => {
    const was = at.run && at.run.running;
    if (told.number !== at.number) now.clear();
    at.number = told.number;
    at.run = told;
    // of one that ended before the page was loaded, the list itself tells
    if (told.running || was) for (const [suite, id, kind] of told.trials) now.set(suite + '::' + id, kind || 'not_measured');
    if (was && !told.running) {
      at.finished = true;
      if (!at.dialog && !told.error && !(at.panel && (at.draft || at.asking))) { location.reload(); return; }
    }
    draw();
  };
  const start = async given_ => {
    host = given_;
    try { known = await ask('state'); } catch (error) { at.error = error.message; known = {suites: [], problems: [], runs: [], waiting: [], readOnly: true, chat: null}; }
    at.run = known.run || null;
    at.number = at.run ? at.run.number : 0;
    bar = document.createElement('section');
    bar.id = 'bar';
    bar.setAttribute('aria-label', 'Runs');
    box = document.createElement('dialog');
    box.setAttribute('aria-labelledby', 'dialog-title');
    box.addEventListener('cancel', event => { event.preventDefault(); close(); });
    document.body.prepend(bar);
    panel = document.createElement('aside');
    panel.id = 'panel';
    panel.setAttribute('aria-labelledby', 'panel-title');
    panel.addEventListener('keydown', event => { if (event.key === 'Escape') talk(false); });
    bar.after(panel);
    document.body.append(box);
    at.panel = Boolean(sessionStorage.getItem('evalgate-chat')) && writable();
    document.body.classList.add('host');
    draw();
    const events = new EventSource('/api/events');
    events.onmessage = event => { at.lost = false; heard(JSON.parse(event.data)); };
    events.addEventListener('chat', event => listened(JSON.parse(event.data)));
    events.onerror = () => { at.lost = true; draw(); };
  };
  return {Pick, Tools, start};
})();
