// A chat with the teller: tool cards, questions to the person at the page, a tool of the page, and state both ways.
//
// ?server=http://127.0.0.1:8000 names another origin, ?thread=... the conversation: the same one after a reload.
import {
  CopilotChat,
  CopilotKitProvider,
  HttpAgent,
  useAgent,
  useDefaultRenderTool,
  useFrontendTool,
  useInterrupt,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { z } from "zod";

const asked = new URLSearchParams(location.search);
const server = asked.get("server") ?? "";
const thread = asked.get("thread") ?? "thread-1";

// A page that is loaded anew connects to its thread: it gets the messages, and the run under way or the open question.
// A run goes on without its page, so the button that stops the answer cancels the run of the thread.
class ThreadAgent extends HttpAgent {
  connect(input) {
    return this.run({ ...input, messages: [], forwardedProps: { ...input.forwardedProps, connect: true } });
  }

  abortRun() {
    postInput(this, { forwardedProps: { cancelRun: true } });
    super.abortRun();
  }
}

function postInput({ url, headers, threadId }, fields) {
  const runId = Math.random().toString(36).slice(2);
  const input = { threadId, runId, state: {}, messages: [], tools: [], context: [], forwardedProps: {}, ...fields };
  const sent = { "content-type": "application/json", ...headers };
  return fetch(url, { method: "POST", headers: sent, body: JSON.stringify(input) }).catch(console.error);
}

const teller = new ThreadAgent({ url: `${server}/teller`, agentId: "teller", threadId: thread });

// A component of its own: what is typed into it stays with it, however often the question is drawn.
function QuestionCard({ interrupt, resolve, cancel }) {
  const [answer, setAnswer] = useState('{"decision": "approve"}');
  const { arguments: given = {}, risk_in_words: risk } = interrupt?.metadata ?? {};
  return (
    <section data-testid="question" className="question">
      <p data-testid="question-text">{interrupt?.message}</p>
      <dl data-testid="question-arguments">
        {Object.entries(given).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
      <small>{risk}</small>
      <button onClick={() => resolve({ approved: true })}>Approve</button>
      <button onClick={() => resolve({ approved: false })}>Reject</button>
      <button onClick={() => cancel()}>Cancel</button>
      <input aria-label="Other answer" value={answer} onChange={(event) => setAnswer(event.target.value)} />
      <button onClick={() => resolve(JSON.parse(answer))}>Send answer</button>
    </section>
  );
}

function Question() {
  useInterrupt({ agentId: "teller", render: (asked) => <QuestionCard {...asked} /> });
  return null;
}

function ToolCards() {
  useDefaultRenderTool({
    render: ({ name, status, result }) => (
      <article data-testid={`card-${name}`} data-status={status}>
        {name} {result === undefined ? "…" : String(result)}
      </article>
    ),
  });
  return null;
}

function Walls() {
  const [color, setColor] = useState("white");
  useFrontendTool({
    name: "paint",
    description: "Paint the walls of the page.",
    parameters: z.object({ color: z.string() }),
    handler: async ({ color }) => {
      setColor(color);
      return `the walls are ${color}`;
    },
  });
  return (
    <p data-testid="walls" style={{ background: color }}>
      walls: {color}
    </p>
  );
}

function SharedState() {
  const { agent } = useAgent({ agentId: "teller" });
  return (
    <p>
      <span data-testid="state">{JSON.stringify(agent.state ?? {})}</span>
      <button onClick={() => agent.setState({ ...agent.state, account: "savings" })}>Choose savings</button>
    </p>
  );
}

function Page() {
  const [problem, setProblem] = useState("");
  return (
    <CopilotKitProvider
      agents__unsafe_dev_only={{ teller }}
      agentId="teller"
      showDevConsole={false}
      onError={({ error }) => setProblem(String(error?.message ?? error))}
    >
      <ToolCards />
      <Question />
      <Walls />
      <SharedState />
      <p role="alert" data-testid="problem">{problem}</p>
      <div style={{ height: "70vh" }}>
        <CopilotChat agentId="teller" threadId={thread} />
      </div>
    </CopilotKitProvider>
  );
}

createRoot(document.getElementById("root")).render(<Page />);
