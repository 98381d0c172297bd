// One conversation of the official AG-UI client with a server: steps come in on stdin, what it has goes out on stdout.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

import { HttpAgent } from "@ag-ui/client";

const { url, threadId, headers, steps, state } = JSON.parse(readFileSync(0, "utf8"));
const agent = new HttpAgent({ url, threadId, headers, initialState: state });
const report = [];

for (const step of steps) {
  const events = [];
  const failures = [];
  const parameters = { ...step.run };
  if (step.say !== undefined) {
    agent.addMessage({ id: randomUUID(), role: "user", content: step.say });
  }
  if (step.results !== undefined) {
    for (const call of openCalls(agent.messages)) {
      const content = JSON.stringify(step.results[call.function.name]);
      agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content });
    }
  }
  if (step.resume !== undefined) {
    parameters.resume = agent.pendingInterrupts.map((each) => ({ interruptId: each.id, ...step.resume }));
  }
  let result = null;
  try {
    const ended = await agent.runAgent(parameters, {
      onEvent({ event }) {
        events.push(event);
        if (event.type === step.abortAt) agent.abortRun();
      },
      onRunFailed({ error }) {
        failures.push(error.message);
      },
    });
    result = ended.result ?? null;
  } catch (error) {
    failures.push(error.message);
  }
  const { messages, state: its, pendingInterrupts: pending } = agent;
  report.push(structuredClone({ events, failures, result, messages, state: its, pending }));
}

process.stdout.write(JSON.stringify(report));

function openCalls(messages) {
  const answered = new Set(messages.filter((each) => each.role === "tool").map((each) => each.toolCallId));
  return messages.flatMap((each) => each.toolCalls ?? []).filter((each) => !answered.has(each.id));
}
