// A Bun server that does the bridge's work for three methods: authentication, session look-up, dispatch, and the two
// audit lines of a call, which it writes asynchronously. Prints its URL. Usage: bun server.mjs HOME
import { randomUUID, timingSafeEqual } from "node:crypto";
import { createWriteStream, readFileSync } from "node:fs";

const home = process.argv[2];
const { token, tools } = JSON.parse(readFileSync(`${home}/bun.json`, "utf8"));
const expected = Buffer.from(token);
const log = createWriteStream(`${home}/audit.log`, { flags: "a", mode: 0o600 });
const sessions = new Map();
const json = { "content-type": "application/json" };

const reply = (status, body, headers = json) => new Response(JSON.stringify(body), { status, headers });
const failure = (status, id, code, message) => reply(status, { jsonrpc: "2.0", id, error: { code, message } });

function allowed(header) {
  const found = /^Bearer\s+(.+)$/i.exec(header ?? "");
  const given = Buffer.from(found?.[1] ?? "");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function call(sid, params) {
  const name = params?.name ?? "";
  const args = JSON.stringify(params?.arguments ?? {}).slice(0, 1024);
  const record = { ts: new Date().toISOString(), id: randomUUID(), sid, phase: "start", tool: name, args };
  log.write(`${JSON.stringify(record)}\n`);
  const text = name === "echo" ? String(params.arguments?.text ?? "") : `tool '${name}' is not exposed by this bridge`;
  const isError = name !== "echo";
  log.write(`${JSON.stringify({ ...record, ts: new Date().toISOString(), phase: "done", isError })}\n`);
  return { content: [{ type: "text", text }], isError };
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    if (!allowed(request.headers.get("authorization"))) return failure(401, null, -32000, "unauthorized");
    let message;
    try {
      message = await request.json();
    } catch {
      return failure(400, null, -32700, "parse error");
    }
    const { jsonrpc, id = null, method, params } = message ?? {};
    if (jsonrpc !== "2.0" || typeof method !== "string") return failure(400, null, -32600, "invalid request");
    if (method === "initialize") {
      const session = randomUUID();
      sessions.set(session, Date.now());
      return reply(200, { jsonrpc, id, result: {} }, { ...json, "mcp-session-id": session });
    }
    const sid = request.headers.get("mcp-session-id");
    if (!sessions.has(sid)) return failure(404, id, -32000, "unknown session");
    sessions.set(sid, Date.now());
    if (method === "ping") return reply(200, { jsonrpc, id, result: {} });
    if (method === "tools/list") return reply(200, { jsonrpc, id, result: { tools } });
    if (method === "tools/call") return reply(200, { jsonrpc, id, result: call(sid, params) });
    return failure(200, id, -32601, "method not found");
  },
});
console.log(`listening on ${server.url}`);
