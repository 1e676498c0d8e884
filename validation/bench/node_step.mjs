// The decode step in node: reads one JSON request per line, answers one JSON line. See wasm_step.py.
import { closeSync, openSync, readSync } from "node:fs";
import { answerLines, Loaded } from "../../tq_core/show/answer_lines.mjs";

const loaded = new Loaded();
let steps, position = 0;

const answer = {
  load: ({ module }) => loaded.load(module),

  prepare({ data, ranges, memory, steps: wanted }) {
    const bytes = loaded.bytes(memory);
    const file = openSync(data);
    for (const [address, nbytes] of ranges) {
      for (let done = 0; done < nbytes; ) done += readSync(file, bytes, address + done, nbytes - done);
    }
    closeSync(file);
    const bound = ([kind, ...rest]) => {
      if (kind === "copy") return () => bytes.copyWithin(rest[0], rest[1], rest[1] + rest[2]);
      const kernel = loaded.exported[rest[0]], values = rest[1];
      return () => kernel(...values);
    };
    steps = wanted.map((operations) => operations.map(bound));
    return {};
  },

  sample({ calls }) {
    const step = () => {
      for (const operation of steps[position++ % steps.length]) operation();
    };
    step();
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) step();
    return { ns: Number(process.hrtime.bigint() - start) / calls };
  },

  read: (request) => loaded.read(request),
};

await answerLines(answer);
