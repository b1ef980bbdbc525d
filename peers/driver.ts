// A second extension for the tests: what omp itself says of its session, and calls made inside it.
//   /driver {"do":"tools"}   /driver {"do":"call","name":"read","arguments":{},"times":1}
// Each answers with one notice that is JSON.
import type { ExtensionAPI } from "@oh-my-pi/pi-coding-agent";

const TEXTS: Record<string, () => string> = {
	large: () => "0123456789abcdef\u2028é\n".repeat(250_000),
	half: () => "half \ud83d of a pair",
	odd: () => "nul \0, escape \u001b[31m, separator \u2028, bom \ufeff",
};

// Sessions that have started in this process: Main, and its subagents.
let sessions = 0;

export default function driver(pi: ExtensionAPI): void {
	pi.on("session_start", () => {
		sessions += 1;
	});
	// omp shortens what its own tools say; an extension's tool says what it likes.
	pi.registerTool({
		name: "produce",
		label: "produce",
		description: "for tests",
		parameters: pi.typebox.Type.Object({ kind: pi.typebox.Type.String() }),
		approval: "read",
		execute: async (_id: string, { kind }: any) => {
			if (kind === "blocks") {
				const resource = { uri: "file:///x", text: "y" };
				return { content: [{ type: "resource", resource }, { type: "text", text: "z" }] as any };
			}
			if (kind === "nothing") return undefined as any;
			if (kind === "huge integer") return { content: [{ type: "text", text: "x", count: 10n ** 30n }] as any };
			if (kind === "text alone") return { content: "x" as any };
			if (kind === "throw") throw "no error, only a string";
			return { content: [{ type: "text", text: TEXTS[kind]!() }] };
		},
	} as any);
	// One that does not look at its signal.
	pi.registerTool({
		name: "stubborn",
		label: "stubborn",
		description: "for tests",
		parameters: pi.typebox.Type.Object({ file: pi.typebox.Type.String() }),
		approval: "exec",
		execute: async (_id: string, { file }: any) => {
			await Bun.write(file, "ran\n");
			return { content: [{ type: "text", text: "ran" }] };
		},
	} as any);
	pi.registerCommand("driver", {
		description: "for tests",
		handler: async (line, ctx) => {
			const { AgentRegistry, MAIN_AGENT_ID } = pi.pi as any;
			const session = AgentRegistry.global().get(MAIN_AGENT_ID).session;
			const steps: Record<string, (step: any) => unknown> = {
				sessions: () => sessions,
				jobs: () => session.asyncJobManager.getRunningJobs().length,
				tools: () => pi.getAllTools().map(tool => tool.name),
				call: async ({ name, arguments: given, times = 1 }) => {
					const took: number[] = [];
					let result: any;
					for (let turn = 0; turn < times; turn++) {
						const began = performance.now();
						result = await session.getToolByName(name).execute(`driver-${turn}`, given);
						took.push(performance.now() - began);
					}
					return { content: result.content, isError: result.isError === true, took };
				},
			};
			try {
				const step = JSON.parse(line);
				ctx.ui.notify(JSON.stringify({ driver: await steps[step.do]!(step) }), "info");
			} catch (error) {
				ctx.ui.notify(JSON.stringify({ driver: { error: String(error) } }), "info");
			}
		},
	});
}
