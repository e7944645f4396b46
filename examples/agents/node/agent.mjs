// A library's help desk that speaks evalgate's agent protocol (docs/agent-protocol.md). Needs Node 18, no packages.
import readline from "node:readline";

const LOANS = { "A-17": { title: "Dune", due: "2031-05-02", renewals: 1 }, "B-04": { title: "Emma", due: "2031-04-20", renewals: 0 } };

const sessions = new Map();
const asked = new Map(); // tool calls that wait for evalgate's answer
let asksForTools = false;
let askedSoFar = 0;

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

/** The one tool: looks a loan up and renews it where that is still allowed. */
function renewLoan({ loan_id }, state) {
  const loan = LOANS[loan_id];
  if (!loan) return { error: `no loan ${loan_id}` };
  if (loan.renewals < 1) return { error: `${loan.title} cannot be renewed again` };
  state.renewed = [...(state.renewed ?? []), loan_id];
  return { title: loan.title, due: "2031-05-30" };
}

/** Where evalgate records, replays or mocks tools, it is asked before one runs, and says what becomes of the call. */
async function runTool(session, call, run) {
  if (!asksForTools) return run();
  const { name, args } = call;
  const id = `t${(askedSoFar += 1)}`;
  const answered = new Promise((resolve) => asked.set(id, resolve));
  say({ type: "tool_call", session, call: id, name, args });
  const told = await answered;
  asked.delete(id);
  if (told.refused) throw new Error(told.refused);
  if (told.error) throw new Error(told.error.message);
  if (!told.run) return told.response;
  const response = run();
  if (told.report) say({ type: "tool_result", session, call: id, response });
  return response;
}

async function answer(session, text) {
  const state = sessions.get(session);
  const emit = (parts, extra = {}) =>
    say({ type: "event", session, author: "help_desk", content: { role: "model", parts }, ...extra });
  const loan_id = text.match(/\b[A-Z]-\d\d\b/)?.[0];
  if (!loan_id) return emit([{ text: "Which loan is it? Its number looks like A-17." }], { final: true });
  const call = { id: "call-1", name: "renew_loan", args: { loan_id } };
  emit([{ function_call: call }]);
  const response = await runTool(session, call, () => renewLoan(call.args, state));
  emit([{ function_response: { id: call.id, name: call.name, response } }]);
  const reply = response.error ? `Sorry: ${response.error}.` : `${response.title} is yours until ${response.due}.`;
  emit([{ text: reply }], { final: true });
}

const handle = {
  hello: ({ tools }) => {
    asksForTools = Boolean(tools);
    say({ type: "ready", protocol: 1, sessions: 8, tools: true, about: { framework: "none", node: process.version } });
  },
  start: ({ session, state }) => {
    sessions.set(session, { ...state });
    say({ type: "started", session });
  },
  tool_response: (message) => asked.get(message.call)?.(message),
  turn: async ({ session, content }) => {
    try {
      await answer(session, (content.parts ?? []).map((part) => part.text ?? "").join(" "));
      say({ type: "turn_end", session });
    } catch (error) {
      say({ type: "turn_failed", session, kind: "raised", message: String(error), detail: error.stack });
    }
  },
  end: ({ session }) => {
    say({ type: "ended", session, state: sessions.get(session) });
    sessions.delete(session);
  },
  bye: () => process.exit(0),
};

const input = readline.createInterface({ input: process.stdin });
input.on("line", (line) => {
  const message = JSON.parse(line);
  handle[message.type]?.(message);
});
input.on("close", () => process.exit(0));
