// The omp end of the A2A bridge: starts the bridge as a child of the process's Main session, and runs that session's
// tools when the bridge asks. What can be decided in Python is decided there; nothing here may take omp down.
import { AsyncLocalStorage } from "node:async_hooks";
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
// Bounds of what one human is asked and shown, and of a schema's depth.
const MOST_WAITING = 16;
const MOST_SHOWN = 3;
const MOST_ARGUMENTS = 12;
const MOST_LEVELS = 200;
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
const NO_SERVICES = "hub: a service is not started for a remote caller, since its end would wake omp's own model; use bash";
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

/** A remote call that runs. `asking` is how many approvals of it wait for the human, `jobs` what it has started in
 * omp's background, `refusal` why it was not allowed to go on. */
interface Running {
	tool: string;
	what: string;
	client: string;
	stop: AbortController;
	asking: number;
	jobs: any[];
	withdrawn: boolean;
	refusal: string;
}

// Which remote call the work at hand belongs to, through everything that it awaits: what it asks, what it starts in the
// background, and which further tools it calls (`eval`, `write xd://…`).
const within = new AsyncLocalStorage<Running>();

const text = (error: unknown) => (error instanceof Error ? error.message : String(error));
const failure = (message: string): Outcome => ({ content: [{ type: "text", text: message }], isError: true });

/** What a person can read in a line: what cannot be seen, or turns the line around, as escapes; and not too long. */
function readable(words: unknown, most: number): string {
	const whole = [...String(words)];
	const cut = whole.length > most ? `${whole.slice(0, most).join("")}… (${whole.length} characters)` : whole.join("");
	return cut
		.replace(/[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu, found => `\\u{${found.codePointAt(0)!.toString(16)}}`)
		.replace(/(\p{M}{3})\p{M}+/gu, "$1…")
		.replace(/ {4,}/g, " … ");
}

/** Arguments for a person: every one of them, the short ones first, so that none hides behind a long one. */
function shown(given: unknown): string {
	if (given === null || typeof given !== "object" || Array.isArray(given)) return readable(JSON.stringify(given) ?? "", 200);
	const parts = Object.entries(given).map(([name, value]) => `${readable(name, 40)}: ${readable(JSON.stringify(value) ?? "", 120)}`);
	const few = parts.sort((one, other) => one.length - other.length).slice(0, MOST_ARGUMENTS);
	return `{${few.join(", ")}${parts.length > few.length ? `, and ${parts.length - few.length} more` : ""}}`;
}

/** The tools of omp's Main session, and running one of them. */
class Hands {
	readonly running = new Map<string, Running>();
	/** Whether the bridge exposes a tool, for those that are called from within another. */
	exposes: (name: string) => Promise<boolean> = async () => false;
	#wireSchema: (tool: any) => Json = () => ({});
	#validate: (tool: any, call: Json) => unknown = () => ({});
	#atEnd: (id: string, callback: () => Promise<void>, options: Json) => void = () => {};
	#ending = false;
	#shown = "";

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
			"session.extensionRunner.getUIContext": this.#session?.extensionRunner?.getUIContext,
			"ui.select": this.ctx.ui?.select,
			"ui.setStatus": this.ctx.ui?.setStatus,
			"ui.setWidget": this.ctx.ui?.setWidget,
		};
		const jobs = this.#session?.asyncJobManager;
		const names = ["register", "getJob", "watchJobs", "unwatchJobs", "acknowledgeDeliveries", "consumeJobResults", "cancel"];
		for (const name of names) if (jobs) used[`asyncJobManager.${name}`] = jobs[name];
		for (const [name, value] of Object.entries(used)) if (typeof value !== "function") missing.push(name);
		if (missing.length > 0)
			throw new Error(`this omp (${version(this.pi)}) lacks ${missing.join(", ")}; the bridge was written for ${WRITTEN_FOR}`);
		this.#mindPrompts();
		if (jobs) this.#mindJobs(jobs);
	}

	/** A prompt of a remote call ends with that call: one that stayed open could be answered, and a tool that does not
	 * look at its signal would run for nobody. */
	#mindPrompts(): void {
		const ui = this.#session.extensionRunner.getUIContext(); // the one behind what handlers are given
		const select = ui.select.bind(ui);
		ui.select = async (title: unknown, options: unknown, dialog?: Json) => {
			const call = within.getStore();
			if (!call) return select(title, options, dialog);
			const { signal } = call.stop;
			if (this.#asking() > MOST_WAITING) {
				call.refusal = `limit: ${MOST_WAITING} remote calls wait for approval already; try again when they are decided`;
				return undefined;
			}
			if (signal.aborted) return undefined;
			const both = dialog?.signal ? AbortSignal.any([dialog.signal, signal]) : signal;
			const answer = await select(title, options, { ...dialog, signal: both });
			return signal.aborted ? undefined : answer;
		};
	}

	/** What a remote call starts in omp's background belongs to its caller: from its birth on its result is kept from
	 * the host's conversation, where it would start a turn of the model. */
	#mindJobs(manager: any): void {
		const register = manager.register.bind(manager);
		manager.register = (...given: unknown[]) => {
			const id = register(...given);
			const call = within.getStore();
			if (call) {
				manager.watchJobs([id]);
				call.jobs.push(manager.getJob(id));
				if (call.stop.signal.aborted) manager.cancel(id);
			}
			return id;
		};
	}

	#asking(): number {
		return [...this.running.values()].filter(call => call.asking > 0).length;
	}

	list(): Json {
		return { tools: this.pi.getAllTools().filter(info => this.#find(info.name)).map(info => this.#listed(info)) };
	}

	/** One tool whose schema cannot be said must not take the others with it. */
	#listed(info: any): Json {
		const { name, description } = info;
		const shown = { name, description: typeof description === "string" ? description : "" };
		try {
			const inputSchema = this.#wireSchema(info);
			const words = JSON.stringify(inputSchema);
			if (inputSchema.type === "object" && !("$ref" in inputSchema) && depth(words) < MOST_LEVELS) return { ...shown, inputSchema };
		} catch {
			// It is offered without one; omp's own validator judges the arguments anyhow.
		}
		return { ...shown, inputSchema: { type: "object" } };
	}

	/** The tool of exactly that name: omp knows aliases (`xd://bash`), the contract does not (M6). A tool that an MCP
	 * server has from another one (`mcp__…` is its own name there) stays out, or two bridges that lend to each other
	 * would each offer the other's offer of the other's offer. */
	#find(name: unknown): any {
		const tool = typeof name === "string" ? this.#session?.getToolByName(name) : undefined;
		return tool && tool.name === name && !String(tool.mcpToolName ?? "").startsWith("mcp__") ? tool : undefined;
	}

	async call({ id, name, arguments: given, client }: Json): Promise<Outcome> {
		const who = `"${readable(client || "an unnamed client", 80)}"`;
		const call: Running = {
			tool: String(name),
			what: `${readable(name, 80)} ${shown(given)}`,
			client: who,
			stop: new AbortController(),
			asking: 0,
			jobs: [],
			withdrawn: false,
			refusal: "",
		};
		this.running.set(id, call);
		try {
			// A cancel that came with the call (omp was stopped meanwhile) is read first.
			await new Promise(resolve => setImmediate(resolve));
			return await within.run(call, () => this.#run(id, call, name, given));
		} finally {
			this.running.delete(id);
			this.show();
		}
	}

	async #run(id: string, call: Running, name: unknown, given: unknown): Promise<Outcome> {
		const { signal } = call.stop;
		if (signal.aborted) throw new Refusal(WITHDRAWN, "withdrawn");
		const session = this.#session;
		if (!session) return failure(GONE);
		const tool = this.#find(name);
		if (tool === undefined) throw new Refusal(UNKNOWN_TOOL, String(name));
		let outcome: Outcome;
		try {
			const checked: any = this.#validate(tool, { type: "toolCall", id, name, arguments: given });
			if (name === "hub" && ["start", "restart"].includes(checked?.op)) return failure(NO_SERVICES);
			outcome = await this.#settled(call, await tool.execute(id, checked, signal, undefined, this.#context(session)));
		} catch (error) {
			outcome = failure(this.#ending ? GONE : call.refusal || text(error));
			this.#release(call);
		}
		if (call.withdrawn) throw new Refusal(WITHDRAWN, "withdrawn");
		return outcome;
	}

	/** A result, once all that omp does for it in the background has ended. */
	async #settled(call: Running, result: any): Promise<Outcome> {
		const content: Block[] = result?.content ?? [];
		if (!Array.isArray(content)) return { content, isError: true }; // the bridge says what is wrong with it
		const words = content.map(block => (typeof block?.text === "string" ? block.text : "")).join("\n");
		const later = call.jobs.filter(job => job.status === "running" || words.includes(job.id));
		for (let seen = 0; seen < call.jobs.length; ) {
			const jobs = call.jobs.slice(seen);
			seen = call.jobs.length;
			await Promise.all(jobs.map(job => job.promise));
		}
		const whole = result?.details?.async?.state === "running"; // then the result says no more than that
		const blocks = later.flatMap(job => [
			{ type: "text", text: `${whole ? "" : `[${job.id}] `}${job.resultText ?? job.errorText ?? ""}` },
			...(Array.isArray(job.latestDetails?.images) ? job.latestDetails.images : []),
		]);
		this.#release(call);
		const failed = result?.isError === true || later.some(job => job.status !== "completed");
		return { content: whole && later.length > 0 ? blocks : [...content, ...blocks], isError: failed };
	}

	/** Nothing of the call's background work is left, or left to be told. */
	#release(call: Running): void {
		const manager = this.#session?.asyncJobManager;
		const names = call.jobs.map(job => job.id);
		if (names.length === 0) return;
		for (const name of names) manager?.cancel(name);
		manager?.acknowledgeDeliveries(names);
		manager?.consumeJobResults(names);
		manager?.unwatchJobs(names);
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
		call.withdrawn = call.asking > 0;
		call.stop.abort();
		for (const job of call.jobs) this.#session?.asyncJobManager?.cancel(job.id);
		if (call.withdrawn) this.ctx.ui.notify(`REMOTE call withdrawn by ${call.client}, nothing runs: ${call.what}`, "info");
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

	/** A tool that a remote call's tool calls in its turn must be exposed too. */
	async nested(name: string): Promise<{ block: true; reason: string } | undefined> {
		const call = within.getStore();
		if (!call || name === call.tool || (await this.exposes(name))) return undefined;
		return { block: true, reason: `tool '${name}' is not exposed by this bridge` };
	}

	/** omp asks its human about something that a remote call does, or has the answer. */
	asked(name: string, change: 1 | -1): void {
		const call = within.getStore();
		if (!call) return;
		call.asking += change;
		if (change === 1 && this.#asking() <= MOST_WAITING) {
			const inner = name === call.tool ? "" : `${readable(name, 80)} within `;
			this.ctx.ui.notify(`REMOTE call, asked by ${call.client}: ${inner}${call.what}`, "warning");
			for (const [id, one] of this.running)
				if (one === call) {
					this.running.delete(id); // omp asks in the order in which they come to ask
					this.running.set(id, call);
					break;
				}
		}
		this.show();
	}

	/** The remote calls that wait for the human, in the order in which omp asks. They stand below omp's box: one that
	 * is taller than the terminal (a command of many lines) pushes out whatever is above it. */
	show(): void {
		const waiting = [...this.running.values()].filter(call => call.asking > 0);
		const first = waiting.slice(0, MOST_SHOWN);
		const lines = first.map(call => `A2A: REMOTE call waits for approval: ${readable(call.what, 160)} (asked by ${call.client})`);
		if (waiting.length > MOST_SHOWN) lines.push(`A2A: and ${waiting.length - MOST_SHOWN} more REMOTE calls`);
		const all = lines.join("\n");
		if (all === this.#shown) return;
		this.#shown = all;
		this.ctx.ui.setWidget("a2a", lines.length > 0 ? lines : undefined, { placement: "belowEditor" });
	}
}

/** How deep JSON text is nested, or a little more: brackets within strings count. */
function depth(words: string): number {
	let [now, most] = [0, 0];
	for (const mark of words) {
		if (mark === "{" || mark === "[") most = Math.max(most, ++now);
		else if (mark === "}" || mark === "]") now--;
	}
	return most;
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
	#starting = false;
	#readySince = 0;
	#port = 0;
	#failures = 0;
	#why = "";
	#killed = "";
	#fix = RESTART;
	#again: NodeJS.Timeout | undefined;
	#turn = Promise.resolve();
	#unread = 0;

	constructor(readonly hands: Hands) {
		hands.exposes = async name => (await this.ask("exposed", { name }).catch(() => false)) === true;
	}

	/** Start the child anew, or for the first time; one after the other, however often it is asked for. */
	restart(): Promise<void> {
		this.#starting = true;
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
		this.#starting = false;
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
		if (this.#child && this.#readySince > 0) return "";
		if (this.#child || this.#starting) return "it is starting; /a2a restart starts it anew";
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
	pi.on("tool_approval_requested", event => guarded(pi, () => bridge?.hands.asked(event.toolName, 1))());
	pi.on("tool_approval_resolved", event => guarded(pi, () => bridge?.hands.asked(event.toolName, -1))());
	pi.on("tool_call", async event => bridge?.hands.nested(event.toolName));
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
	return (await bridge.ask("command", { word })) ?? { message: "A2A bridge: it gave no answer", level: "warning" };
}
