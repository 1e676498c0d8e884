// A placed work in node (V8): one JSON request per line, one JSON line back. See node_step.py.
import { readFileSync } from "node:fs";
import { answerLines, Loaded } from "./answer_lines.mjs";

const loaded = new Loaded();
let calls, resets;

const answer = {
  load: ({ module }) => loaded.load(module),

  prepare({ data, ranges, fresh, memory, calls: wanted }) {
    const file = readFileSync(data), bytes = loaded.bytes(memory);
    let from = 0;
    const next = (nbytes) => file.subarray(from, (from += nbytes));
    for (const [address, nbytes] of ranges) bytes.set(next(nbytes), address);
    resets = fresh.map(([address, nbytes]) => [next(nbytes), address]);
    calls = wanted.map(([kernel, values]) => () => loaded.exported[kernel](...values));
    return {};
  },

  sample({ count }) {
    const bytes = loaded.bytes();
    const start = process.hrtime.bigint();
    for (let i = 0; i < count; i++) {
      for (const [from, address] of resets) bytes.set(from, address);
      for (const call of calls) call();
    }
    return { seconds: Number(process.hrtime.bigint() - start) / 1e9 / count };
  },

  read: (request) => loaded.read(request),
};

await answerLines(answer);
