// llama.cpp on a whole model file, through node-llama-cpp: one JSON request per line in, one JSON line out.
// Arguments: folder of node_modules, model file, threads.
// {"op": "hello"}                                   -> {"versions"}
// {"op": "run", "type", "prefill", "steps", "ids", "clock"}  -> {"prefill_ns", "decode_ns": [...]}, a fresh context of that cache type
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { answerLines } from "../../../tq_core/show/answer_lines.mjs";

const [folder, file, threads] = process.argv.slice(2);
const root = join(folder, "node-llama-cpp");
const { getLlama } = await import(pathToFileURL(join(root, "dist", "index.js")).href);
const version = JSON.parse(readFileSync(join(root, "package.json"))).version;
const llama = await getLlama({ gpu: false, build: "never", logLevel: "disabled", maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath: file });

// The greedy next token is asked for, so that the logits are made, as in a decode step.
const greedy = { generateNext: { token: true, options: { temperature: 0 } } };
const clocks = {
  wall: () => Number(process.hrtime.bigint()),
  cpu: () => { const { user, system } = process.cpuUsage(); return 1000 * (user + system); },
};

const answer = {
  hello: () => ({ versions: { "node-llama-cpp": version, "llama.cpp": llama.llamaCppRelease.release } }),

  // 256 tokens to spare: close to its end a context begins to forget its oldest tokens.
  async run({ type, ids, prefill, steps, clock }) {
    const now = clocks[clock];
    const context = await model.createContext({
      contextSize: prefill + steps + 256, batchSize: 512, threads: Number(threads), flashAttention: true,
      experimentalKvCacheKeyType: type, experimentalKvCacheValueType: type,
    });
    try {
      const sequence = context.getSequence();
      let start = now();
      await sequence.controlledEvaluate(ids.slice(0, prefill).map((id, i) => (i === prefill - 1 ? [id, greedy] : id)));
      const prefillNs = now() - start, decodeNs = [];
      for (const id of ids.slice(prefill, prefill + steps)) {
        start = now();
        await sequence.controlledEvaluate([[id, greedy]]);
        decodeNs.push(now() - start);
      }
      return { prefill_ns: prefillNs, decode_ns: decodeNs, tokens: sequence.nextTokenIndex };
    } finally {
      await context.dispose();
    }
  },
};

await answerLines(answer);
process.exit(0);
