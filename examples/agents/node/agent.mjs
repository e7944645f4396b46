// A library's help desk that speaks evalgate's agent protocol (docs/agent-protocol.md). Needs Node 18, no packages.
import readline from "node:readline";

const LOANS = { "A-17": { title: "Dune", due: "2031-05-02", renewals: 1 }, "B-04": { title: "Emma", due: "2031-04-20", renewals: 0 } };

const sessions = new Map();

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

/** The one tool: looks a loan up and renews it where that is still allowed. */
function renewLoan({ loan_id }, state) {
  const loan = LOANS[loan_id];
  if (!loan) return { error: `no loan ${loan_id}` };
  if (loan.renewals < 1) return { error: `${loan.title} cannot be renewed again` };
  state.renewed = [...(state.renewed ?? []), loan_id];
  return { title: loan.title, due: "2031-05-30" };
}

function answer(session, text) {
  const state = sessions.get(session);
  const emit = (parts, extra = {}) =>
    say({ type: "event", session, author: "help_desk", content: { role: "model", parts }, ...extra });
  const loan_id = text.match(/\b[A-Z]-\d\d\b/)?.[0];
  if (!loan_id) return emit([{ text: "Which loan is it? Its number looks like A-17." }], { final: true });
  const call = { id: "call-1", name: "renew_loan", args: { loan_id } };
  emit([{ function_call: call }]);
  const response = renewLoan(call.args, state);
  emit([{ function_response: { id: call.id, name: call.name, response } }]);
  const reply = response.error ? `Sorry: ${response.error}.` : `${response.title} is yours until ${response.due}.`;
  emit([{ text: reply }], { final: true });
}

const handle = {
  hello: () => say({ type: "ready", protocol: 1, sessions: 8, about: { framework: "none", node: process.version } }),
  start: ({ session, state }) => {
    sessions.set(session, { ...state });
    say({ type: "started", session });
  },
  turn: ({ session, content }) => {
    try {
      answer(session, (content.parts ?? []).map((part) => part.text ?? "").join(" "));
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
