// One decode step of one layer as a ggml graph: a flash attention node, or the three nodes of the plain route
// (scores, softmax, sums). Built against the headers of the ggml that is measured.
#include <stdlib.h>
#include <string.h>

#include "ggml-cpu.h"
#include "ggml.h"

struct step {
  struct ggml_context *context;
  struct ggml_cgraph *graph;
  struct ggml_cplan plan;
  struct ggml_tensor *keys, *values, *out;
  size_t stored;
};

// Quantized from `data`, or copied from a tensor that already is.
static struct ggml_tensor *stored_as(struct ggml_context *context, enum ggml_type type, const float *data,
                                     const struct ggml_tensor *done, int64_t row, int64_t rows, int64_t heads) {
  struct ggml_tensor *tensor = ggml_new_tensor_3d(context, type, row, rows, heads);
  if (done) {
    memcpy(ggml_get_data(tensor), ggml_get_data(done), ggml_nbytes(done));
  } else {
    ggml_quantize_chunk(type, data, ggml_get_data(tensor), 0, rows * heads, row, NULL);
  }
  return tensor;
}

int tqb_type(const char *name) {
  if (!strcmp(name, "f16")) return GGML_TYPE_F16;
  if (!strcmp(name, "q8_0")) return GGML_TYPE_Q8_0;
  if (!strcmp(name, "q4_0")) return GGML_TYPE_Q4_0;
  return -1;
}

// queries (n_query_heads, head_dim); keys (n_kv_heads, n_tokens, head_dim); values the same for the flash route, and
// (n_kv_heads, head_dim, n_tokens) for the plain one. `like`, when given, is a step whose stored data is copied.
struct step *tqb_make(int flash, int key_type, int value_type, int64_t head_dim, int64_t n_query_heads, int64_t n_kv_heads,
                      int64_t n_tokens, int n_threads, float scale, const float *queries, const float *keys,
                      const float *values, const struct step *like) {
  ggml_cpu_init();
  const size_t rows = (size_t)n_tokens * n_kv_heads;
  const size_t value_row = flash ? ggml_row_size(value_type, head_dim) * rows : 2 * rows * head_dim;
  struct step *step = calloc(1, sizeof *step);
  step->stored = ggml_row_size(key_type, head_dim) * rows + value_row;
  const size_t scores = (size_t)n_tokens * n_query_heads * 4;
  struct ggml_init_params params = {step->stored + 3 * scores + ggml_graph_overhead() + (8u << 20), NULL, false};
  step->context = ggml_init(params);
  if (!step->context) return free(step), NULL;
  struct ggml_tensor *q = ggml_new_tensor_3d(step->context, GGML_TYPE_F32, head_dim, 1, n_query_heads);
  memcpy(ggml_get_data(q), queries, (size_t)head_dim * n_query_heads * 4);
  struct ggml_tensor *k = step->keys =
      stored_as(step->context, key_type, keys, like ? like->keys : NULL, head_dim, n_tokens, n_kv_heads);
  const int64_t row = flash ? head_dim : n_tokens, column = flash ? n_tokens : head_dim;
  struct ggml_tensor *v = step->values =
      stored_as(step->context, value_type, values, like ? like->values : NULL, row, column, n_kv_heads);
  if (flash) {
    step->out = ggml_flash_attn_ext(step->context, q, k, v, NULL, scale, 0.0f, 0.0f);
  } else {
    struct ggml_tensor *weights = ggml_soft_max_ext(step->context, ggml_mul_mat(step->context, k, q), NULL, scale, 0.0f);
    step->out = ggml_mul_mat(step->context, v, weights);
  }
  step->graph = ggml_new_graph(step->context);
  ggml_build_forward_expand(step->graph, step->out);
  step->plan = ggml_graph_plan(step->graph, n_threads, NULL);
  step->plan.work_data = step->plan.work_size ? malloc(step->plan.work_size) : NULL;
  return step;
}

int tqb_run(struct step *step) { return ggml_graph_compute(step->graph, &step->plan); }

// (n_query_heads, head_dim) of the last run.
const float *tqb_out(struct step *step) { return ggml_get_data_f32(step->out); }

size_t tqb_stored_bytes(struct step *step) { return step->stored; }

void tqb_free(struct step *step) {
  free(step->plan.work_data);
  ggml_free(step->context);
  free(step);
}
