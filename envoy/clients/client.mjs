// Drives the official OpenAI client for JavaScript for javascript_test.go, as client.py drives those for Python.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [base, packages] = process.argv.slice(2);
const { OpenAI, APIError } = createRequire(packages + "/package.json")("openai");

async function perform(client, command) {
  const call = (stream) =>
    client.chat.completions.create(
      { model: command.model, messages: [{ role: "user", content: "hello" }], stream },
      { query: command.query },
    );
  if (command.do === "plain") {
    return { texts: [(await call(false)).choices[0].message.content] };
  }
  const texts = [];
  for await (const chunk of await call(true)) {
    texts.push(chunk.choices[0].delta.content);
    if (command.do === "cancel") break; // the client aborts the request when its loop is left
  }
  return { texts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const client = new OpenAI({ baseURL: base + "/v1", apiKey: "none", maxRetries: command.retries, timeout: 30_000 });
  let answer;
  try {
    answer = await perform(client, command);
  } catch (e) {
    if (!(e instanceof APIError)) throw e;
    answer = { error: e.constructor.name, status: e.status, body: e.error, retryAfter: e.headers?.get("retry-after") };
  }
  console.log(JSON.stringify(answer));
}
