// The omp end of the A2A bridge: starts the bridge as a child of the process's Main session, and runs that session's
// tools when the bridge asks. What can be decided in Python is decided there; nothing here may take omp down.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import type { ExtensionAPI, ExtensionContext } from "@oh-my-pi/pi-coding-agent";

// How to start the bridge. `a2a-bridge omp install` writes the very installation that it belongs to.
const COMMAND: string[] = ["a2a-bridge"];
// The version of the messages of the link; the bridge compares.
const LINK_VERSION = 1;
const WRITTEN_FOR = "omp 18.2";

// A child that asks and does not read, or that writes a line without end, is killed.
const MOST_UNREAD_CHARACTERS = 64 * 1024 * 1024;
const MOST_LINE_CHARACTERS = 256 * 1024 * 1024;
const MOST_STDERR_CHARACTERS = 2000;
const MOST_SHOWN = 3;
// What a command waits for the bridge; what the child gets to end, and its last words to arrive.
const ANSWER_MS = 5_000;
const END_MS = 1_000;
const LAST_WORDS_MS = 250;
// The waits before one that crashed is started again; one that had been up for so long has none behind it.
const BACKOFF_MS = [500, 1_000, 2_000, 5_000, 10_000];
const STEADY_MS = 60_000;

const UNKNOWN_TOOL = -32602;
const NO_METHOD = -32601;
const BROKEN = -32603;
const WITHDRAWN = -32800;

const GONE = "host unavailable: omp has ended";
const RESTART = "/a2a restart starts it again";
const REINSTALL = "run a2a-bridge omp install and restart omp";

type Json = Record<string, any>;
type Level = "info" | "warning" | "error";
type Block = Json & { type: string };
type Outcome = { content: Block[]; isError: boolean };

/** How a child ended, and what to do about it. */
type End = { why: string; fix?: string; orderly?: boolean };

class Refusal extends Error {
	constructor(readonly code: number, message: string) {
		super(message);
	}
}

/** A remote call that runs. `asking` is how many approvals of it wait for the human. */
interface Running {
	what: string;
	short: string;
	client: string;
	stop: AbortController;
	asking: number;
	withdraw: () => void;
}

const text = (error: unknown) => (error instanceof Error ? error.message : String(error));
const failure = (message: string): Outcome => ({ content: [{ type: "text", text: message }], isError: true });

/** What a person can read in a line: control and direction characters as escapes, and not too long. */
function readable(words: unknown, most: number): string {
	const whole = String(words);
	const cut = whole.length > most ? `${whole.slice(0, most)}… (${whole.length} characters)` : whole;
	return cut.replace(
		/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
		found => `\\u{${found.charCodeAt(0).toString(16)}}`,
	);
}

/** The tools of omp's Main session, and running one of them. */
class Hands {
	readonly running = new Map<string, Running>();
	#wireSchema: (tool: any) => Json = () => ({});
	#atEnd: (id: string, callback: () => Promise<void>, options: Json) => void = () => {};
	#ending = false;
	// The calls that were withdrawn while omp asked about them; its prompts stay open.
	readonly #stale = new Map<string, string>();
	#shown = "";
	#validate: (tool: any, call: Json) => unknown = () => ({});

	constructor(
		readonly pi: ExtensionAPI,
		readonly ctx: ExtensionContext,
	) {}

	get #session(): any {
		return mainSession(this.pi);
	}

	/** Find all that is used of omp. Throws with what is missing. */
	async prepare(): Promise<void> {
		const missing: string[] = [];
		try {
			this.#wireSchema = (await import("@oh-my-pi/pi-ai/utils/schema")).toolWireSchema as any;
			this.#validate = (await import("@oh-my-pi/pi-ai/utils/validation")).validateToolArguments as any;
			this.#atEnd = (await import("@oh-my-pi/pi-utils")).postmortem.register as any;
		} catch (error) {
			missing.push(readable(text(error), 300));
		}
		const used: Json = {
			toolWireSchema: this.#wireSchema,
			validateToolArguments: this.#validate,
			"postmortem.register": this.#atEnd,
			"pi.getAllTools": this.pi.getAllTools,
			"pi.getActiveTools": this.pi.getActiveTools,
			"session.getToolByName": this.#session?.getToolByName,
			"ui.notify": this.ctx.ui?.notify,
			"ui.setStatus": this.ctx.ui?.setStatus,
			"ui.setWidget": this.ctx.ui?.setWidget,
		};
		const jobs = this.#session?.asyncJobManager;
		for (const name of ["watchJobs", "unwatchJobs", "acknowledgeDeliveries", "consumeJobResults", "getAllJobs", "cancel"])
			if (jobs) used[`asyncJobManager.${name}`] = jobs[name];
		for (const [name, value] of Object.entries(used)) if (typeof value !== "function") missing.push(name);
		if (missing.length > 0)
			throw new Error(`this omp (${version(this.pi)}) lacks ${missing.join(", ")}; the bridge was written for ${WRITTEN_FOR}`);
	}

	list(): Json {
		const tools = [];
		for (const info of this.pi.getAllTools()) {
			if (this.#find(info.name) === undefined) continue;
			const { name, description } = info;
			tools.push({ name, description: description ?? "", inputSchema: this.#wireSchema(info) });
		}
		return { tools };
	}

	/** The tool of exactly that name: omp knows aliases (`xd://bash`), the contract does not (M6). A tool that an MCP
	 * server has from another one (`mcp__…` is its own name there) stays out, or two bridges that lend to each other
	 * would each offer the other's offer of the other's offer. */
	#find(name: string): any {
		const tool = typeof name === "string" ? this.#session?.getToolByName(name) : undefined;
		return tool && tool.name === name && !String(tool.mcpToolName ?? "").startsWith("mcp__") ? tool : undefined;
	}

	async call({ id, name, arguments: given, client }: Json): Promise<Outcome> {
		const stop = new AbortController();
		const { promise: withdrawn, reject } = Promise.withResolvers<never>();
		const withdraw = () => reject(new Refusal(WITHDRAWN, "withdrawn"));
		const [tool, words] = [readable(name, 80), JSON.stringify(given) ?? ""];
		const shown = { what: `${tool} ${readable(words, 300)}`, short: `${tool} ${readable(words, 100)}` };
		const who = readable(client || "an unnamed client", 80);
		this.running.set(id, { ...shown, client: who, stop, asking: 0, withdraw });
		try {
			// A cancel that came with the call (omp was stopped meanwhile) is read first.
			await new Promise(resolve => setImmediate(resolve));
			return await Promise.race([this.#run(id, name, given, stop.signal), withdrawn]);
		} finally {
			this.running.delete(id);
			this.show();
		}
	}

	async #run(id: string, name: string, given: unknown, signal: AbortSignal): Promise<Outcome> {
		if (signal.aborted) throw new Refusal(WITHDRAWN, "withdrawn");
		const session = this.#session;
		if (!session) return failure(GONE);
		const tool = this.#find(name);
		if (tool === undefined) throw new Refusal(UNKNOWN_TOOL, name);
		try {
			const checked = this.#validate(tool, { type: "toolCall", id, name, arguments: given });
			const result = await tool.execute(id, checked, signal, undefined, this.#context(session));
			return await followed(session, result, signal);
		} catch (error) {
			return failure(this.#ending ? GONE : text(error));
		}
	}

	/** What omp's own loop passes, less what would loosen an approval (`autoApprove`) or touch its own turn (`abort`). */
	#context(session: any): any {
		const { sessionManager, modelRegistry, model, ui, hasUI } = this.ctx;
		return {
			sessionManager,
			modelRegistry,
			model,
			ui,
			hasUI,
			settings: session.settings,
			toolNames: this.pi.getActiveTools(),
			isIdle: () => this.ctx.isIdle(),
			hasQueuedMessages: () => this.ctx.hasPendingMessages(),
			abort: () => {},
		};
	}

	cancel(id: string): void {
		const call = this.running.get(id);
		if (!call) return;
		call.stop.abort();
		if (call.asking === 0) return;
		call.withdraw(); // omp keeps the prompt open, and runs nothing when it is answered
		this.#stale.set(id, call.short);
		this.ctx.ui.notify(`REMOTE call withdrawn; however its prompt is answered, nothing runs: ${call.what}`, "warning");
	}

	cancelAll(): void {
		for (const id of [...this.running.keys()]) this.cancel(id);
	}

	/** Have this done when a signal ends omp, of which its RPC mode says nothing to its extensions. */
	atEnd(work: () => Promise<void>): void {
		this.#atEnd("a2a-bridge", work, { exitOnly: true });
	}

	/** Cancel all, and give it a moment to end. */
	async end(): Promise<void> {
		this.#ending = true;
		this.cancelAll();
		for (let turn = 0; turn < 10 && this.running.size > 0; turn++) await Bun.sleep(50);
	}

	/** omp asks its human about this call, or has the answer. */
	asked(id: string, change: 1 | -1): void {
		if (change === -1) this.#stale.delete(id);
		const call = this.running.get(id);
		if (!call) return this.show();
		call.asking += change;
		if (change === 1) {
			this.ctx.ui.notify(`REMOTE call, asked by ${call.client}: ${call.what}`, "warning");
			this.running.delete(id); // omp asks in the order in which they come to ask
			this.running.set(id, call);
		}
		this.show();
	}

	/** The remote calls that wait for the human, in the order in which omp asks. They stand below omp's box: one that
	 * is taller than the terminal (a command of many lines) pushes out whatever is above it. */
	show(): void {
		const waiting = [...this.running.values()].filter(call => call.asking > 0);
		const all = [
			...[...this.#stale.values()].map(what => `withdrawn, its prompt runs nothing: ${what}`),
			...waiting.map(call => `waits for approval: ${call.short} (asked by ${call.client})`),
		];
		const lines = all.slice(0, MOST_SHOWN).map(words => `A2A: REMOTE call ${words}`);
		if (all.length > MOST_SHOWN) lines.push(`A2A: and ${all.length - MOST_SHOWN} more REMOTE calls`);
		const shown = lines.join("\n");
		if (shown === this.#shown) return;
		this.#shown = shown;
		this.ctx.ui.setWidget("a2a", lines.length > 0 ? lines : undefined, { placement: "belowEditor" });
	}
}

/** A result that omp moved to the background is awaited here: what it brings belongs to the caller, and must neither
 * land in the host's conversation nor start a turn of its model. */
async function followed(session: any, result: any, signal: AbortSignal): Promise<Outcome> {
	const content: Block[] = result?.content ?? [];
	const manager = session.asyncJobManager;
	const details = result?.details;
	if (details?.async?.state !== "running" || !manager) return { content, isError: result?.isError === true };
	const ids = new Set<string>([details.async.jobId, ...(details.progress ?? []).map((one: Json) => one.id)]);
	const jobs: Json[] = manager.getAllJobs().filter((job: Json) => ids.has(job.id) || ids.has(job.agentId));
	const names = jobs.map(job => job.id);
	manager.watchJobs(names);
	manager.acknowledgeDeliveries(names);
	const cancel = () => {
		for (const name of names) manager.cancel(name);
	};
	signal.addEventListener("abort", cancel);
	if (signal.aborted) cancel();
	try {
		await Promise.all(jobs.map(job => job.promise));
		const blocks = jobs.flatMap(job => [
			{ type: "text", text: job.resultText ?? job.errorText ?? "" },
			...(job.latestDetails?.images ?? []),
		]);
		return { content: jobs.length > 0 ? blocks : content, isError: jobs.some(job => job.status !== "completed") };
	} finally {
		signal.removeEventListener("abort", cancel);
		manager.consumeJobResults(names);
		manager.unwatchJobs(names);
	}
}

/** The child and the link to it: newline-delimited JSON-RPC 2.0 in both directions. */
class Bridge {
	#child: ChildProcessWithoutNullStreams | undefined;
	#pieces: string[] = [];
	#held = 0;
	#stderr = "";
	#asked = new Map<number, { resolve: (value: any) => void; reject: (error: Error) => void }>();
	#number = 0;
	#wanted = false;
	#readySince = 0;
	#port = 0;
	#failures = 0;
	#why = "";
	#killed = "";
	#fix = RESTART;
	#again: NodeJS.Timeout | undefined;
	#turn = Promise.resolve();
	#unread = 0;

	constructor(readonly hands: Hands) {}

	/** Start the child anew, or for the first time; one after the other, however often it is asked for. */
	restart(): Promise<void> {
		return this.#inTurn(async () => {
			await this.#end("human");
			this.#failures = 0;
			this.#start();
		});
	}

	/** End the child, which answers the calls in flight first. Resolves when it has ended. */
	stop(why: "omp" | "human"): Promise<void> {
		return this.#inTurn(() => this.#end(why));
	}

	/** omp is about to end: so does what runs for callers, and the child. */
	async leave(): Promise<void> {
		await this.hands.end();
		await this.stop("omp");
	}

	#inTurn(work: () => Promise<void>): Promise<void> {
		this.#turn = this.#turn.then(work, work);
		return this.#turn;
	}

	#start(): void {
		clearTimeout(this.#again);
		this.#wanted = true;
		this.#readySince = this.#held = this.#unread = 0;
		this.#pieces = [];
		this.#why = this.#stderr = this.#killed = "";
		this.#fix = RESTART;
		const port = this.#port > 0 ? ["--port", String(this.#port)] : [];
		const words = [...COMMAND.slice(1), "omp", "link", ...port];
		let child: ChildProcessWithoutNullStreams;
		try {
			// A session of its own: Ctrl-Z and a hang-up of the terminal reach omp alone, and the bridge can still answer.
			child = spawn(COMMAND[0]!, words, { stdio: "pipe", detached: true });
		} catch (error) {
			this.#ended({ why: `${COMMAND[0]} cannot be started: ${text(error)}`, fix: REINSTALL });
			return;
		}
		this.#child = child;
		const own = (handler: (...given: any[]) => void) =>
			guarded(this.hands.pi, (...given: any[]) => this.#child === child && handler(...given));
		child.stdout.setEncoding("utf8").on("data", own(piece => this.#read(piece)));
		child.stderr.setEncoding("utf8").on("data", own(piece => this.#overheard(piece)));
		for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", () => {});
		child.on("error", own(error => this.#ended({ why: `${COMMAND[0]} cannot be started: ${text(error)}`, fix: REINSTALL })));
		const over = own((code, signal) => {
			const why = this.#killed || (signal ? `it was ended by ${signal}` : `it ended with exit code ${code}`);
			this.#ended({ why, orderly: code === 0 });
		});
		child.on("close", over);
		// Its last words may still be on their way; but a process that it left may hold its pipes for ever.
		child.on("exit", (...given) => void setTimeout(() => over(...given), LAST_WORDS_MS).unref());
		child.unref();
	}

	async #end(why: "omp" | "human"): Promise<void> {
		clearTimeout(this.#again);
		this.#wanted = false;
		const child = this.#child;
		if (!child) return;
		if (why === "human") this.#write(encoded({ method: "stopping" }));
		this.#let();
		child.stdin.end();
		const timer = setTimeout(guarded(this.hands.pi, () => child.kill("SIGKILL")), END_MS);
		if (child.exitCode === null && child.signalCode === null) await new Promise(resolve => child.once("exit", resolve));
		clearTimeout(timer);
	}

	get state(): string {
		if (this.#child) return this.#readySince > 0 ? "" : "it is starting; /a2a restart starts it anew";
		return `${this.#why || "it was stopped"}; ${this.#fix}`;
	}

	/** Ask the bridge. */
	ask(method: string, params: Json): Promise<any> {
		const id = ++this.#number;
		const { promise, resolve, reject } = Promise.withResolvers<any>();
		this.#asked.set(id, { resolve, reject });
		const late = () => reject(new Error("the bridge does not answer; /a2a restart starts it anew"));
		const timer = setTimeout(late, ANSWER_MS);
		this.#write(encoded({ id, method, params }));
		return promise.finally(() => {
			clearTimeout(timer);
			this.#asked.delete(id);
		});
	}

	/** The child counts no more: nothing runs for it, and nothing waits for it. */
	#let(): void {
		this.#child = undefined;
		this.hands.cancelAll();
		this.hands.ctx.ui.setStatus("a2a", undefined);
		for (const asked of this.#asked.values()) asked.reject(new Error("the bridge has ended"));
	}

	#ended({ why, fix = `${RESTART}; or ${REINSTALL}`, orderly = false }: End): void {
		const ready = this.#readySince > 0;
		const steady = ready && Date.now() - this.#readySince > STEADY_MS;
		this.#let();
		if (!this.#wanted) return;
		const { ui } = this.hands.ctx;
		if (ready && orderly) {
			this.#why = "it was ended from outside";
			ui.notify(`A2A bridge: ${this.#why}; ${RESTART}`, "warning");
			return;
		}
		if (steady) this.#failures = 0;
		const wait = BACKOFF_MS[this.#failures++];
		if (!ready || wait === undefined) {
			// What it could say itself it has said.
			if (this.#why === "") {
				this.#why = ready ? `${why}, again and again` : why;
				this.#fix = ready ? `look into omp's log, then ${RESTART}` : fix;
				const heard = this.#stderr.trim() ? `\n${readable(this.#stderr.trim().split("\n").pop(), 300)}` : "";
				ui.notify(`A2A bridge: ${this.#why}; ${this.#fix}${heard}`, "error");
			}
			return;
		}
		ui.notify(`A2A bridge: ${why}; it is started again in ${wait / 1000} s`, "warning");
		this.#again = setTimeout(guarded(this.hands.pi, () => this.#start()), wait);
		this.#again.unref();
	}

	#kill(why: string): void {
		this.#killed = `${why}, and was ended`;
		this.#child?.kill("SIGKILL");
	}

	#overheard(piece: string): void {
		this.#stderr = (this.#stderr + piece).slice(-MOST_STDERR_CHARACTERS);
		if (piece.length < MOST_STDERR_CHARACTERS) this.hands.pi.logger.warn("a2a-bridge", { stderr: piece.trim() });
	}

	#read(piece: string): void {
		const [head, ...rest] = piece.split("\n");
		this.#pieces.push(head!);
		this.#held += head!.length;
		if (this.#held > MOST_LINE_CHARACTERS) this.#kill("it wrote a line without an end");
		for (const part of rest) {
			const line = this.#pieces.join("");
			this.#pieces = [part];
			this.#held = part.length;
			if (line.trim()) this.#take(line);
		}
	}

	#take(line: string): void {
		let message: Json;
		try {
			message = JSON.parse(line);
		} catch {
			this.hands.pi.logger.warn("a2a-bridge: a line that is no JSON was dropped", { line: line.slice(0, 200) });
			return;
		}
		if (typeof message?.method === "string") void this.#answer(message).catch(() => {});
		else if (message?.error) this.#asked.get(message.id)?.reject(new Error(String(message.error.message)));
		else this.#asked.get(message?.id)?.resolve(message?.result);
	}

	async #answer({ id, method, params }: Json): Promise<void> {
		let line: string;
		try {
			line = encoded({ id, result: (await this.#do(method, params ?? {})) ?? null });
		} catch (error) {
			line = encoded({ id, error: { code: error instanceof Refusal ? error.code : BROKEN, message: text(error) } });
		}
		if (id !== undefined) this.#write(line);
	}

	#do(method: string, params: Json): unknown {
		const { pi, ctx } = this.hands;
		switch (method) {
			case "hello":
				return { link: LINK_VERSION, omp: version(pi), cwd: ctx.cwd };
			case "ping":
				return {};
			case "tools/list":
				return this.hands.list();
			case "tools/call":
				return this.hands.call(params);
			case "cancel":
				return this.hands.cancel(params.id);
			case "ready":
				this.#readySince = Date.now();
				this.#port = params.port;
				return;
			case "failed":
				this.#why = params.message;
				return ctx.ui.notify(`A2A bridge: ${params.message}`, "error");
			case "notify":
				return ctx.ui.notify(params.message, params.level as Level);
			case "status":
				return ctx.ui.setStatus("a2a", params.text);
		}
		throw new Refusal(NO_METHOD, `no method ${method}`);
	}

	#write(line: string): void {
		const stdin = this.#child?.stdin;
		if (!stdin?.writable) return;
		// bun does not count what is held back (writableLength).
		this.#unread += line.length;
		stdin.write(line, () => {
			this.#unread -= line.length;
		});
		if (this.#unread > MOST_UNREAD_CHARACTERS) this.#kill("it asked and did not read what it was answered");
	}
}

const encoded = (message: Json) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`;

function version(pi: ExtensionAPI): string {
	return String((pi.pi as any)?.VERSION ?? "of an unknown version");
}

function mainSession(pi: ExtensionAPI): any {
	const { AgentRegistry, MAIN_AGENT_ID } = pi.pi as any;
	return AgentRegistry?.global?.().get(MAIN_AGENT_ID)?.session;
}

/** The same function, but its errors end in omp's log. */
function guarded<Given extends unknown[]>(pi: ExtensionAPI, handler: (...given: Given) => unknown) {
	return (...given: Given): void => {
		try {
			void Promise.resolve(handler(...given)).catch(error => pi.logger.warn("a2a-bridge", { error: text(error) }));
		} catch (error) {
			pi.logger.warn("a2a-bridge", { error: text(error) });
		}
	};
}

const COMPLETIONS = [
	["status", "Where the bridge listens, and how it is"],
	["token", "Show the full token"],
	["restart", "Start the bridge anew; calls in flight end with an error"],
	["rotate", "Replace the token; the old one fails at once"],
	["stop", "End the bridge until omp starts again, or /a2a restart"],
].map(([value, description]) => ({ value: value!, label: value!, description: description! }));

// One module may be found twice (a link and a plugin); then each copy is evaluated, and the first one counts.
const OWNER = Symbol.for("omp-a2a-bridge");
const self = {};
let bridge: Bridge | undefined;

export default function a2aBridge(pi: ExtensionAPI): void {
	const shared = globalThis as { [OWNER]?: object };
	shared[OWNER] ??= self;
	if (shared[OWNER] !== self) return;

	pi.on("session_start", (_event, ctx) => guarded(pi, () => begin(pi, ctx))());
	pi.on("session_shutdown", async (_event, ctx) => {
		if (ctx.sessionManager === bridge?.hands.ctx.sessionManager) await bridge?.leave().catch(() => {});
	});
	pi.on("tool_approval_requested", event => guarded(pi, () => bridge?.hands.asked(event.toolCallId, 1))());
	pi.on("tool_approval_resolved", event => guarded(pi, () => bridge?.hands.asked(event.toolCallId, -1))());
	pi.registerCommand("a2a", {
		description: "The A2A bridge: status, token, restart, rotate, stop",
		// A word that is whole is not offered: the menu would take the Enter that is meant for the command.
		getArgumentCompletions: prefix =>
			COMPLETIONS.filter(({ value }) => value.startsWith(prefix.trim()) && value !== prefix.trim()),
		handler: async (line, ctx) => {
			try {
				const answer = await command(line.trim() || "status");
				if (answer) ctx.ui.notify(answer.message, answer.level);
			} catch (error) {
				ctx.ui.notify(`A2A bridge: ${text(error)}`, "error");
			}
		},
	});
}

/** Whether this is the process's Main session: subagents fire the same events, and ACP has no Main. */
function isMain(pi: ExtensionAPI, ctx: ExtensionContext): boolean {
	return ctx.sessionManager === mainSession(pi)?.sessionManager;
}

async function begin(pi: ExtensionAPI, ctx: ExtensionContext): Promise<void> {
	// `-p` and `--mode json` run one prompt and end, with nobody to ask: nothing to lend.
	if (bridge || (ctx.mode !== "tui" && ctx.mode !== "rpc")) return;
	if (typeof (pi.pi as any)?.AgentRegistry?.global !== "function") {
		const lacks = "lacks AgentRegistry, so its Main session cannot be found";
		ctx.ui?.notify(`A2A bridge: this omp (${version(pi)}) ${lacks}; the bridge was written for ${WRITTEN_FOR}`, "error");
		return;
	}
	if (!isMain(pi, ctx)) return;
	const hands = new Hands(pi, ctx);
	try {
		await hands.prepare();
		const started = new Bridge(hands);
		bridge = started;
		hands.atEnd(() => started.leave());
		await started.restart();
	} catch (error) {
		ctx.ui.notify(`A2A bridge: ${text(error)}`, "error");
	}
}

async function command(word: string): Promise<{ message: string; level: Level } | undefined> {
	if (!bridge) throw new Error("it runs only in the Main session of omp's terminal and RPC modes");
	if (word === "restart") {
		// Said before it starts: omp shows the last of several such lines alone, and that is to be the address.
		bridge.hands.ctx.ui.notify("A2A bridge: starting anew", "info");
		await bridge.restart();
		return undefined;
	}
	if (word === "stop") {
		await bridge.stop("human");
		return { message: `A2A bridge: stopped; ${RESTART}`, level: "info" };
	}
	if (bridge.state) throw new Error(`not running: ${bridge.state}`);
	return await bridge.ask("command", { word });
}
