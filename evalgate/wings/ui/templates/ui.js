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
  let host = null, known = null, bar = null, box = null;
  const picked = new Set(), now = new Map();
  const at = {run: null, number: 0, lost: false, error: '', scored: null, dialog: null, finished: false};

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
      const left = told.total ? `${told.done} of ${plural(told.total, told.why ? 'rerun' : 'trial')} ${told.why}` : 'starting';
      return html`<progress max=${told.total || 1} value=${told.total ? told.done : undefined} aria-label="Progress of the run"></progress>
        <span>${told.stopping ? 'stopping: ' : ''}${left}${counts && ': ' + counts}${told.usd ? `, $${told.usd.toFixed(2)}` : ''}</span>`;
    }
    if (told.error) return html`<span class="bad">${host.seen(told.error.message)} ${host.seen(told.error.hint)}</span>`;
    if (!told.verdict) return '';
    return html`<span>Last run: ${told.verdict.complete ? WORDS[told.verdict.kind] : 'stopped; the next run continues it'}${
      counts && ` (${counts})`}</span>`;
  };
  const Bar = () => {
    const busy = Boolean(at.run && at.run.running), off = busy || !writable();
    const chosen = [...picked];
    return html`<div class="line"><b>evalgate ui</b>${known.readOnly ? html`<span class="badge not_measured">read-only</span>` : ''}<${Sides} /></div>
      <div class="line"><button type="button" id="run-all" class="strong" disabled=${off} onClick=${() => run('all')}>Run all</button>
      <button type="button" id="run-failed" disabled=${off} onClick=${() => run('failed')}>Run failed</button>
      <button type="button" id="run-selected" disabled=${off || !chosen.length} onClick=${() => run('selected', chosen.map(split))}>
        Run selected (${chosen.length.toLocaleString('en')})</button>
      <button type="button" id="select" onClick=${() => {
        const shown = host.shown().map(each => each.key), all = shown.every(key => picked.has(key));
        for (const key of shown) if (all) picked.delete(key); else picked.add(key);
        draw();
      }}>Select shown</button>
      <button type="button" id="stop" disabled=${!busy || at.run.stopping || at.lost} onClick=${() => attempt(() => ask('stop', {}))}>Stop</button>
      <${Scored} />
      <button type="button" id="chat" disabled=${!writable()} onClick=${() => open(Chat)}>Chat…</button>
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

  class Chat extends Component {
    constructor(props) {
      super(props);
      const suite = known.chat ? known.chat.suite : (known.suites.find(each => !each.problem) || {key: ''}).key;
      this.state = {suite, chat: known.chat, error: '', text: '', busy: false, id: '', saved: ''};
    }
    ask(name, body, more = {}) {
      this.setState({busy: true, saved: ''});
      return attempt(async () => {
        const told = this.told = await ask(name, body);
        if ('turns' in told) known.chat = told;
        if ('chat' in told) known.chat = null;
        this.setState({chat: known.chat, ...more});
      }, error => this.setState({error})).then(() => this.setState({busy: false}));
    }
    render(_, {suite, chat, error, text, busy, id, saved}) {
      const send = event => {
        event.preventDefault();
        if (!text.trim() || busy) return;
        this.told = null;
        this.ask('chat-say', {text}, {text: ''}).then(async () => {
          if (this.told) return;
          known.chat = (await ask('state').catch(() => known)).chat;  // an agent that failed ends the session
          this.setState({chat: known.chat});
        });
      };
      const save = () => this.ask('chat-save', {suite, case: id.trim()}).then(() => {
        if (this.state.error) return;
        at.finished = true;
        this.setState({saved: this.told.case, id: ''});
      });
      const Suites = ({label}) => html`<label>${label} <select value=${suite} onChange=${event => this.setState({suite: event.target.value})}>
        ${known.suites.filter(each => !each.problem).map(each => html`<option value=${each.key}>${host.seen(each.key)}</option>`)}</select></label>`;
      return html`<${Frame} title="Chat with the agent" error=${error} buttons=${chat && html`<button type="button" id="end"
          onClick=${() => this.ask('chat-end', {})}>End the session</button>`}>
        ${!chat ? html`<p class="fields"><${Suites} label="The agent of" /> <button type="button" id="start" class="strong"
            disabled=${busy || !suite} onClick=${() => this.ask('chat-open', {suite})}>${busy ? 'Starting' : 'Start'}</button></p>` : html`
        <p class="dim">The agent of <code>${host.seen(chat.suite)}</code>${chat.tools === 'live' ? ': its tools are called for real' : `, tools: ${chat.tools}`}.</p>
        <div class="talk" role="log" aria-label="Conversation" tabindex="0">${chat.turns.map(turn => html`<div class="user" dir="auto">${host.seen(turn.user)}</div>
          ${turn.calls.map(call => html`<div><code class="call"><b>${host.seen(call.name)}</b>(${Object.entries(call.args).map(([name, value], at) =>
            html`${at ? ', ' : ''}<span class="arg">${host.seen(name)}=${host.seen(JSON.stringify(value))}</span>`)})</code></div>`)}
          <div class="says" dir="auto">${turn.answer === null ? html`<em>no answer</em>` : host.seen(turn.answer)}</div>`)}${busy && html`<p class="dim">The agent is at work</p>`}</div>
        ${chat.over ? html`<p>The agent failed, which ended the session. What came before can be saved.</p>` : html`<form class="say" onSubmit=${send}><label>Message<textarea id="message" rows="2" dir="auto" value=${text}
            onInput=${event => this.setState({text: event.target.value})} onKeyDown=${event => { if (event.key === 'Enter' && !event.shiftKey) send(event); }}></textarea></label>
          <button type="submit" id="send" class="strong" disabled=${busy || !text.trim()}>Send</button></form>`}
        ${chat.turns.length > 0 && html`<fieldset><legend>Save as a case, which expects what the agent did</legend><p class="fields"><${Suites} label="In" />
          <label>Id <input id="new-id" value=${id} onInput=${event => this.setState({id: event.target.value})} /></label>
          <button type="button" id="save-chat" disabled=${busy || !id.trim()} onClick=${save}>Save</button>
          <span role="status">${saved && 'Saved ' + host.seen(saved)}</span></p></fieldset>`}`}<//>`;
    }
  }

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
      if (!at.dialog && !told.error) { location.reload(); return; }
    }
    draw();
  };
  const start = async given_ => {
    host = given_;
    try { known = await ask('state'); } catch (error) { at.error = error.message; known = {suites: [], problems: [], runs: [], readOnly: true, chat: null}; }
    at.run = known.run || null;
    at.number = at.run ? at.run.number : 0;
    bar = document.createElement('section');
    bar.id = 'bar';
    bar.setAttribute('aria-label', 'Runs');
    box = document.createElement('dialog');
    box.setAttribute('aria-labelledby', 'dialog-title');
    box.addEventListener('cancel', event => { event.preventDefault(); close(); });
    document.body.prepend(bar);
    document.body.append(box);
    document.body.classList.add('host');
    draw();
    const events = new EventSource('/api/events');
    events.onmessage = event => { at.lost = false; heard(JSON.parse(event.data)); };
    events.onerror = () => { at.lost = true; draw(); };
  };
  return {Pick, Tools, start};
})();
