// Tabs of a browser without one: each line on stdin is a command to a client, each line on stdout what came of it. The
// package of the client is the argument.
//
// {tab, open: {url, threadId, state}} loads a tab anew; {tab, step} runs a step to its end; {tab, step, until} returns
// when the stream has that text, {tab, end: true} waits for the rest, and {tab, cut: true} cuts it.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// Not imported: in 0.0.47 a patch of the state fails as a module of Node, and works as pages bundle it.
const { HttpAgent } = createRequire(import.meta.url)(process.argv[2]);

// A connection that is cut rejects promises inside of the client too; a step reports what it means for the page.
process.on("unhandledRejection", () => {});

const HITL = "hitl_approval";
const tabs = new Map();

class Tab {
  constructor({ url, threadId, state }) {
    this.agent = new HttpAgent({ url, threadId, initialState: state });
    this.under = null;
  }

  openCalls() {
    const { messages } = this.agent;
    const answered = new Set(messages.filter((each) => each.role === "tool").map((each) => each.toolCallId));
    return messages.flatMap((each) => each.toolCalls ?? []).filter((each) => !answered.has(each.id));
  }

  questions() {
    const asked = this.openCalls().filter((each) => each.function.name === HITL);
    const native = (this.agent.pendingInterrupts ?? []).map(({ id, message }) => ({ id, message }));
    return native.length ? native : asked.map(({ id, function: { arguments: text } }) => ({ id, message: text }));
  }

  parametersOf(step) {
    const { agent } = this;
    const parameters = { ...step.run };
    if (step.say !== undefined) agent.addMessage({ id: randomUUID(), role: "user", content: step.say });
    for (const [name, result] of Object.entries(step.results ?? {})) {
      for (const call of this.openCalls().filter((each) => each.function.name === name)) {
        this.addResult(call.id, result);
      }
    }
    if (step.decide !== undefined && agent.pendingInterrupts?.length) {
      const decided = step.decide.decision === "cancel" ? { status: "cancelled" } : { status: "resolved", payload: step.decide };
      parameters.resume = agent.pendingInterrupts.map((each) => ({ interruptId: each.id, ...decided }));
    } else if (step.decide !== undefined) {
      this.questions().forEach((each) => this.addResult(each.id, step.decide));
    }
    return parameters;
  }

  addResult(toolCallId, result) {
    this.agent.addMessage({ id: randomUUID(), role: "tool", toolCallId, content: JSON.stringify(result) });
  }

  begin(step) {
    const { agent } = this;
    const events = [];
    const failures = [];
    let text = "";
    let reached;
    const until = new Promise((resolve) => (reached = resolve));
    const subscriber = {
      onEvent({ event }) {
        events.push(event);
        text += event.delta && event.type === "TEXT_MESSAGE_CONTENT" ? event.delta : "";
        if (step.until !== undefined && text.includes(step.until)) reached();
      },
      onRunFailed({ error }) {
        failures.push(error.message);
      },
    };
    const running = agent
      .runAgent(this.parametersOf(step), subscriber)
      .catch((error) => failures.push(error.message))
      .then(() => {
        reached();
        const { messages, state } = agent;
        return { events, failures, text, messages, state, questions: this.questions(), calls: this.openCalls() };
      });
    return { until, running };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { tab: name, open, step, end, cut } = JSON.parse(line);
  let report = {};
  if (open !== undefined) tabs.set(name, new Tab(open));
  const tab = tabs.get(name);
  if (step !== undefined) {
    tab.under = tab.begin(step);
    if (step.until !== undefined) await tab.under.until;
  }
  if (cut) tab.agent.abortRun();
  if (end || cut || (step !== undefined && step.until === undefined)) report = await tab.under.running;
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
