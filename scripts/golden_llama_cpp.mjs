// Freezes what llama.cpp says about validation/golden/NAME/cases.json, NAME being smollm2 or gemma.
//
//   npm install node-llama-cpp@3.21.1     in a directory outside the repository; it brings llama.cpp built
//   cp REPOSITORY/scripts/golden_llama_cpp.mjs .     a module finds its packages beside itself
//   node golden_llama_cpp.mjs MODEL.gguf REPOSITORY/validation/golden/NAME llama_cpp
//   node golden_llama_cpp.mjs MODEL.gguf REPOSITORY/validation/golden/NAME llama_cpp_f16_cache F16
//   node golden_llama_cpp.mjs EXPANDED.gguf REPOSITORY/validation/golden/NAME llama_cpp_f32
//
// The second differs from the first only in the type of llama.cpp's own cache: how far the two are apart
// is llama.cpp's own noise. EXPANDED.gguf comes from golden_expand.py: with float32 weights
// llama.cpp rounds no activations to int8.

import {createHash} from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import {getLlama, getModuleVersion} from "node-llama-cpp";

const TOP = 40;
const [modelPath, directory, name, cacheType = "F32"] = process.argv.slice(2);
if (name === undefined) {
    console.error("usage: node golden_llama_cpp.mjs MODEL.gguf DIRECTORY NAME [CACHE_TYPE]");
    process.exit(2);
}
const cases = JSON.parse(fs.readFileSync(path.join(directory, "cases.json"), "utf8"));
const version = await getModuleVersion();
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

// One thread, no flash attention, float32 cache unless asked: the fewest sources of rounding it offers.
const llama = await getLlama({gpu: false, build: "never", maxThreads: 1});
const model = await llama.loadModel({modelPath});
// A text begins with a token of its own where the model has one; this tokenizer leaves that to its caller.
const begin = model.tokens.shouldPrependBosToken ? [model.tokens.bos] : [];
const tokenize = (text) => [...begin, ...model.tokenize(text, true)];
const tokens = tokenize(cases.prompt).slice(0, cases.prompt_tokens);
const every = cases.every ?? 1;
const positions = tokens.map((_, i) => i).filter((i) => (tokens.length - 1 - i) % every === 0);
const context = await model.createContext({
    contextSize: Math.max(512, tokens.length + 8),
    threads: 1,
    flashAttention: false,
    experimentalKvCacheKeyType: cacheType,
    experimentalKvCacheValueType: cacheType
});
const ask = {generateNext: {probabilities: true, options: {temperature: 0}}};
const asked = new Set(positions);
const inputs = tokens.map((token, i) => (asked.has(i) ? [token, ask] : token));
const answers = (await context.getSequence().controlledEvaluate(inputs)).filter((answer) => answer?.next);

const large = model.fileInfo.metadata.tokenizer.ggml.tokens.length > 1 << 16;
const ids = new (large ? Uint32Array : Uint16Array)(positions.length * TOP);
const logProbs = new Float32Array(positions.length * TOP);
answers.forEach((answer, position) => {
    const entries = [...answer.next.probabilities].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    // llama.cpp's own sum runs in float32 over the whole vocabulary: normalise again.
    const total = entries.reduce((sum, [, probability]) => sum + probability, 0);
    for (let rank = 0; rank < TOP; rank++) {
        ids[position * TOP + rank] = entries[rank][0];
        logProbs[position * TOP + rank] = Math.log(entries[rank][1] / total);
    }
});
const binary = Buffer.concat([Buffer.from(ids.buffer), Buffer.from(logProbs.buffer)]);
fs.writeFileSync(path.join(directory, `${name}.bin`), binary);
const record = {
    runtime: `llama.cpp (node-llama-cpp ${version}, ${llama.llamaCppRelease.release})`,
    cache_type: cacheType,
    model_sha256: sha256(fs.readFileSync(modelPath)),
    prompt_tokens: tokens,
    ...(every > 1 ? {positions} : {}),
    tokenizer_ids: cases.tokenizer_texts.map(tokenize),
    top: TOP,
    arrays: [
        {name: "ids", dtype: large ? "<u4" : "<u2", shape: [positions.length, TOP]},
        {name: "log_probs", dtype: "<f4", shape: [positions.length, TOP]}
    ],
    bin_sha256: sha256(binary)
};
fs.writeFileSync(path.join(directory, `${name}.json`), JSON.stringify(record) + "\n");
console.log(`${name}: ${positions.length} positions, ${binary.length} bytes, ${record.runtime}`);
process.exit(0);
