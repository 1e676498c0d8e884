"""Building and checking the WebAssembly modules; running them is tq_core.kernels.wasm."""
