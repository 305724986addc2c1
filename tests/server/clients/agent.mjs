// Talks to a server through OpenAI's client for Node: plain, streamed, with a schema, and with two tools in a row.
// `node agent.mjs URL MODEL` prints one JSON object. The package `openai` lies beside this file.
import OpenAI from "openai";

const [, , url, model] = process.argv;
const client = new OpenAI({ baseURL: url, apiKey: "none" });
const user = (content) => [{ role: "user", content }];
const fixed = { model, temperature: 0, seed: 0, max_tokens: 60 };

const plain = await client.chat.completions.create({ ...fixed, messages: user("What is 2+2? Answer briefly.") });

let streamed = "";
const stream = await client.chat.completions.create({
  ...fixed, messages: user("What is 2+2? Answer briefly."), stream: true,
});
for await (const chunk of stream) streamed += chunk.choices[0]?.delta?.content ?? "";

const schema = {
  type: "object", required: ["city", "country"], additionalProperties: false,
  properties: { city: { type: "string", maxLength: 40 }, country: { type: "string", maxLength: 40 } },
};
const shaped = await client.chat.completions.create({
  ...fixed, max_tokens: 200, messages: user("Name the capital of France, as JSON."),
  response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema } },
});

const number = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
const tool = (name, description) => ({ type: "function", function: { name, description, parameters: number } });
const tools = [tool("add", "Add two numbers."), tool("multiply", "Multiply two numbers.")];
const work = { add: ({ a, b }) => a + b, multiply: ({ a, b }) => a * b };
const messages = user("Use the tool add for 3 and 4. Then use the tool multiply for that sum and 5.");
const calls = [];
let answer = "";
for (let turn = 0; turn < 5; turn += 1) {
  const reply = await client.chat.completions.create({ ...fixed, max_tokens: 200, messages, tools });
  const message = reply.choices[0].message;
  messages.push(message);
  if (!message.tool_calls?.length) { answer = message.content; break; }
  for (const call of message.tool_calls) {
    const result = work[call.function.name](JSON.parse(call.function.arguments));
    calls.push([call.function.name, result]);
    messages.push({ role: "tool", tool_call_id: call.id, content: String(result) });
  }
}

console.log(JSON.stringify({
  plain: plain.choices[0].message.content, usage: plain.usage, streamed,
  shaped: JSON.parse(shaped.choices[0].message.content), calls, answer,
}));
