// Every kernel of tq_core/kernels/table.py, in the order in which they use each other.
#include "rotate.h"
#include "encode.h"
#include "append.h"
#include "slices.h"
#include "score_keys.h"
#include "sum_values.h"
#include "half_rows.h"
#include "dense.h"
