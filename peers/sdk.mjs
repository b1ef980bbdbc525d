// A client built on the official TypeScript SDK: runs the steps it is told, one JSON line for each outcome.
//   node sdk.mjs URL TOKEN   with steps as JSON lines on stdin, such as {"do":"call","name":"echo","arguments":{}}
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const require = createRequire(join(process.env.PEERS, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const [url, token] = process.argv.slice(2);
let client, transport;

const steps = {
  async connect() {
    client = new Client({ name: "ts-client", version: "1.2.3" });
    transport = new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { Authorization: `Bearer ${token}` } },
    });
    await client.connect(transport);
    return client.getServerVersion();
  },
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  ping: () => client.ping(),
  call: ({ name, arguments: given }) => client.callTool({ name, arguments: given }),
  async cancel({ name, after }) {
    const stop = new AbortController();
    const call = client.callTool({ name, arguments: {} }, undefined, { signal: stop.signal });
    setTimeout(() => stop.abort(), after);
    return call;
  },
  async terminate() {
    await transport.terminateSession();
    return transport.sessionId ?? null;
  },
  close: () => client.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  try {
    console.log(JSON.stringify({ ok: (await steps[step.do](step)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error), code: error.code ?? null }));
  }
}
