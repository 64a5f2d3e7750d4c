"""What the kernels and the Python around them must agree on: sizes, and the tables of int64 words that a step reads.

A step gets one address: a table of `Ctx` words. It points at a table of `Layer` words per layer and at one `Matrix` per
weight matrix. Words are numbers or addresses. Each matrix is cut into groups of `lanes` rows; a group is contiguous.
"""

from __future__ import annotations

from enum import IntEnum

WIDE = 16  # floats that a row operation takes at a time
BLOCK = 32  # columns that share one activation scale
LEAST = 1e-36  # a block whose numbers are all under this counts as zeros: 127 / m may be infinite
SEGMENT = 8  # blocks (256 columns) that are summed before they join the total
CHUNK = 128  # keys in one attention chunk, and in one page of the cache
TILE = 16  # keys that one vector holds
SMALL_STEP = 8  # steps of up to this many tokens: each thread prepares all activations for itself
MAX_STEP = 128  # tokens in the largest step
TILE_TOKENS = 16  # tokens that a matrix tile holds; larger steps go through tiles where the processor has them
WALK_QUERIES = 64  # queries of a prompt chunk that share one walk over the keys
PANEL_BYTES = 14 << 10  # scratch of a product through tiles (kernels/tile_products.py)
PHASES = 5  # phases a layer; one more follows the last layer
CACHE_LINE = 64  # bytes; counters that threads share lie this far apart

KV_F32, KV_F16, KV_Q8_0 = 0, 1, 2


class Ctx(IntEnum):
    """Words of the step context."""

    N_TOKENS = 0  # rows of this step
    START = 1  # position of its first row
    N_LOGITS = 2  # how many of the last rows go through the LM head
    FIRST_PHASE = 3
    END_PHASE = 4
    N_THREADS = 5
    N_LAYERS = 6
    D_MODEL = 7
    D_FF = 8
    N_HEADS = 9
    N_KV_HEADS = 10
    HEAD_DIM = 11
    KV_KIND = 12
    NORM_EPS = 13  # float32 bits, as ATTENTION_SCALE
    ATTENTION_SCALE = 14
    MAX_CHUNKS = 15  # chunks for which PARTIALS has room
    LAYERS = 16  # address of the layer tables
    OUTPUT_NORM = 17
    HEAD = 18  # address of the LM head's Matrix
    COS = 19  # float32 [positions, head_dim / 2]
    SIN = 20
    PAGES = 21  # address of a table of page addresses
    PAGE_STRIDE = 22  # bytes of one (layer, KV head) in a page
    RESIDUAL = 23  # float32 [tokens, d_model]
    QUERIES = 24  # float32 [tokens, heads, head_dim]
    ATTENTION = 25  # float32 [tokens, heads * head_dim]
    FFN = 26  # float32 [tokens, d_ff]
    LOGITS = 27  # float32 [logit rows, LOGIT_STRIDE]
    LOGIT_STRIDE = 28  # floats
    PARTIALS = 29  # float32 [SMALL_STEP, heads, MAX_CHUNKS, head_dim + 2]
    SHARED = 30  # activations for steps over SMALL_STEP, as ACT_... below
    SCRATCH = 31  # address of thread 0's scratch; the next thread's is SCRATCH_STRIDE bytes further
    SCRATCH_STRIDE = 32
    SYNC = 33  # address: see Sync
    # bytes a token takes before each part of an activation buffer (SHARED, or the start of a thread's scratch)
    ACT_SCALES = 34
    ACT_SUMS = 35
    ACT_SCALED_SUMS = 36
    ACT_FLOATS = 37
    # offsets into a thread's scratch
    SCRATCH_ROW = 38  # float32 [longest row]
    SCRATCH_ACC = 39  # a product at work: float32 [MAX_STEP, lanes] or PANEL_BYTES, whichever is more
    SCRATCH_OUT = 40  # float32 [MAX_STEP, rows of the largest piece], twice
    SCRATCH_OUT2 = 41
    SCRATCH_TILE = 42  # float32 [2, head_dim, TILE]
    SCRATCH_SCORES = 43  # float32 [queries, CHUNK]
    SCRATCH_PART = 44  # float32 [queries, head_dim + 2]: weighted values, then maximum and sum
    SCRATCH_STATE = 45  # the same, merged over chunks
    SCRATCH_ATTENTION = 46  # float32 [SMALL_STEP, heads * head_dim]
    ASIDE = 47  # address of Team.ASIDE


class Layer(IntEnum):
    """Words of a layer table. Norms and biases are addresses of float32 vectors, 0 where the model has none."""

    ATTN_NORM = 0
    FFN_NORM = 1
    Q_NORM = 2
    K_NORM = 3
    Q_BIAS = 4
    K_BIAS = 5
    V_BIAS = 6
    Q = 7  # addresses of Matrix tables
    K = 8
    V = 9
    OUT = 10
    GATE = 11
    UP = 12
    DOWN = 13


class Matrix(IntEnum):
    """Words of a packed matrix."""

    FORMAT = 0  # GGML type id
    DATA = 1
    N_GROUPS = 2
    N_BLOCKS = 3  # blocks a row
    GROUP_BYTES = 4
    PIECE = 5  # groups that one thread takes at a time


class Sync(IntEnum):
    """Byte offsets from Ctx.SYNC."""

    ARRIVALS = 0  # at the barrier; its sleepers are on the next line
    RETURN_PHASE = 2 * CACHE_LINE  # where the thread that stands aside goes on; itself a sleeper on the next line
    RETURN_ARRIVALS = 4 * CACHE_LINE  # at the barrier by then
    STOPPED = 5 * CACHE_LINE
    CANCEL = 6 * CACHE_LINE
    # for each phase a line for each thread: the next piece of its share; on the first also how many threads go on
    COUNTERS = 7 * CACHE_LINE
    GO_ON = 8  # from the counter


class Team(IntEnum):
    """Byte offsets into what the threads of a pool share (kernels/team.py)."""

    JOBS = 0  # given out so far; sleepers on the next line
    DONE = 2 * CACHE_LINE  # followers' ends of jobs so far; sleepers on the next line
    ENTRY = 4 * CACHE_LINE  # address of the code of the job, 0 for "end"
    TABLE = ENTRY + 8  # what it gets
    FOLLOWERS = ENTRY + 16  # threads beside the leader
    ASIDE = 5 * CACHE_LINE  # not 0 while this process needs a core for something else
    SIZE = 6 * CACHE_LINE


class Stream(IntEnum):
    """Words of the table of a stream read: memory to read, and where each thread leaves its int32 sum."""

    ADDRESS = 0
    N_BYTES = 1
    N_THREADS = 2
    SUMS = 3


class Packing(IntEnum):
    """Words of the table of a packing: rows of a GGUF tensor in memory, and where their groups go."""

    FORMAT = 0  # GGML type id
    LANES = 1
    SOURCE = 2
    ROW_BYTES = 3
    N_BLOCKS = 4  # blocks a row
    N_GROUPS = 5
    GROUP_BYTES = 6
    TARGET = 7


WORD = 8  # bytes of a table word
