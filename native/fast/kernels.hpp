// What a compiled set of kernels offers: plain functions over a range of rows, one table per instruction set.
// Threads, Python and everything from the standard library stay outside, in files compiled once for the baseline.
#pragma once

#include <cstdint>

#define STARCAST_ALWAYS_INLINE inline __attribute__((always_inline))

namespace starcast {

// Where the numbers of a row lie. A plane is one number per score (a factor, or the biases); a slot is a vector of at
// least sixteen lanes that holds as many whole planes as fit: with five scores, three planes in sixteen lanes, so that
// eight factors and the biases take three cache lines; with ten, three planes in thirty-two. Vectors of one plane may
// read a few floats past a row: rows are made by allocate_rows, which leaves room at the end.
struct RowLayout {
  int n_scores, width, slot, pack;
  // Always inlined, because this header is compiled for several instruction sets and the linker keeps only one copy of
  // a function.
  STARCAST_ALWAYS_INLINE explicit RowLayout(int d) : n_scores(d), width(8) {
    while (width < d) width *= 2;
    slot = width < 16 ? 16 : width == 16 && d <= 10 ? 32 : width;
    pack = slot / d;
  }
  STARCAST_ALWAYS_INLINE int offset(int plane) const { return plane / pack * slot + plane % pack * n_scores; }
  // Moves (at, in_slot), from (0, 0) on, to the next plane: offset without a division, for inner loops.
  STARCAST_ALWAYS_INLINE void next(int& at, int& in_slot) const {
    at += n_scores;
    if (++in_slot == pack) {
      at += slot - pack * n_scores;
      in_slot = 0;
    }
  }
  STARCAST_ALWAYS_INLINE int slots(int n_planes) const { return (n_planes + pack - 1) / pack; }
  STARCAST_ALWAYS_INLINE int64_t stride(int n_planes) const { return static_cast<int64_t>(slots(n_planes)) * slot; }
};

// The part of every row's ratings that a gradient kernel walks: all of them, or those with a range of the other side's
// rows, which then stays in the cache. Sums go on from window to window; rows move at the last one.
struct Window {
  const int64_t *begins = nullptr, *ends = nullptr;  // one per row
  float* sums = nullptr;                             // a row each, from one window to the next; null where all is one
  bool first = true, last = true;
};

// One half of a round: every row of one side moves, the other side stands still.
// Rows hold n_factors planes and, if biased, one more with the row's biases.
struct Pass {
  const int64_t* indptr = nullptr;
  const int32_t* other = nullptr;  // row on the other side, one per rating
  const int8_t* score = nullptr;
  float* rows = nullptr;
  const float* others = nullptr;
  Window window;                   // gradient steps
  const int64_t* order = nullptr;  // DirMF: the rows in the order in which to take them up; null: as they come
  int n_factors = 0;
  int n_scores = 0;
  bool biased = false;
  const float* base = nullptr;    // [n_scores] logit common to all pairs
  const float* values = nullptr;  // [n_scores] scores mapped to -1 .. 1; DirMF: the ratings themselves
  float regularization = 0;
  float bias_regularization = 0;
  float learning_rate = 0;
  float recklessness = 0;
  int64_t longest_row = 0;  // in ratings, for the scratch
  bool polish = false;      // exact: go on below what the objective can tell
  // One per row: exact, after the step; otherwise before it (gradient: the first row's is that of all rows of a call),
  // and null where nobody asks.
  double* row_loglik = nullptr;
  double* row_penalty = nullptr;
  // ResBeMF's gradient steps (visit.hpp); arrays of a row's stride, as rows are laid out.
  float* velocity = nullptr;     // one row per row; null: plain steps of learning_rate
  const float* decay = nullptr;  // regularization of each number, 0 in the padding
  const float* bend = nullptr;   // curvature that a rating adds, times stiffness; 1 in the padding
  float stiffness = 0;
  float momentum = 0;
  float* tally = nullptr;  // three rows, added to over the rows moved: n x^2 with n ratings, x^2, x
};

// What ratings say of rows of ResBeMF: their log-likelihood and, of a block of planes, its gradient and its curvature.
// Ratings of the same row may lie elsewhere, too: all of this is to be added up.
struct ScoreLook {
  Pass pass;                       // its rows are those asked about, one after the other
  const int64_t* which = nullptr;  // [asked] the row of the side that each of them is
  int block = 0;
  double* loglik = nullptr;                  // [asked]
  float *slope = nullptr, *curve = nullptr;  // [asked][plane][score], [asked][lower triangle][score]; null: not wanted
};

// The Newton step of a block from sums over all ratings, and the gain that it promises; -1 where it is not a number.
struct ScoreAim {
  Pass pass;
  int block = 0;
  const float* planes = nullptr;  // [row][plane][score]
  const float *slope = nullptr, *curve = nullptr;
  float* step = nullptr;  // [row][plane of the block][score]
  double* gain = nullptr;
};

// One half of a round of a point model: vectors of one number per factor, moved rating by rating.
struct PointPass {
  const int64_t* indptr = nullptr;
  const int32_t* other = nullptr;
  const int8_t* score = nullptr;
  const float* values = nullptr;  // [n_scores] the rating that each score stands for
  float* rows = nullptr;          // [row][stride]
  const float* others = nullptr;
  float* row_bias = nullptr;  // null: no biases
  const float* other_bias = nullptr;
  int stride = 0;  // n_factors padded to 8
  float mean = 0;
  float learning_rate = 0;
  float regularization = 0;
  double* row_loss = nullptr;  // squared errors before each step
};

// Rows of a point model that solve their least squares while the others stand still, or the sums from which they would.
struct PointSquares {
  const int64_t* indptr = nullptr;
  const int32_t* other = nullptr;
  const int8_t* score = nullptr;
  const int64_t* which = nullptr;  // [asked] the row of the side that each of them is; null: all, in their order
  const float* values = nullptr;   // [n_scores] the rating that each score stands for
  const float* others = nullptr;   // [row][stride], with biases they come first
  int n_columns = 0, stride = 0;   // stride: a multiple of 16
  bool biased = false;
  float mean = 0;
  float regularization = 0;
  double* squares = nullptr;               // [row] of what is to be explained
  float *pull = nullptr, *gram = nullptr;  // [row][column], [row][upper triangle]
  float* rows = nullptr;                   // [row][stride] where they solve it; null: only the sums are wanted
  const int64_t* counts = nullptr;         // [row] ratings in all
  double *row_loss = nullptr, *row_penalty = nullptr;  // where rows are then
};

enum class Link : int { softmax = 0, logistic = 1 };

struct Question {  // probabilities of pairs (user[n], item[n])
  const int32_t* user = nullptr;
  const int32_t* item = nullptr;  // null: every item in turn, for each user
  int64_t n_items = 0;
  const float *P = nullptr, *Q = nullptr;
  int n_factors = 0, n_scores = 0;
  bool biased = false;
  const float* base = nullptr;
  Link link = Link::softmax;
  float* out = nullptr;  // [pair][n_scores]
};

// Rows of the ordinal model move while those of the other side stand still: n_steps of Newton's, then a draw if there
// is noise. Rows have n_columns numbers (factors by basis function, then biases) and zeros up to the stride.
struct OrdinalPass {
  const int64_t* indptr = nullptr;
  const int32_t* other = nullptr;
  const int8_t* score = nullptr;
  float* rows = nullptr;
  const float* others = nullptr;
  int n_columns = 0, stride = 0;  // stride: a multiple of 16
  int n_scores = 0, n_basis = 0;
  const int* ranks = nullptr;        // [n_basis] factors of each basis function
  const float* base = nullptr;       // [n_scores]
  const float* basis = nullptr;      // [n_basis][n_scores]
  const float* means = nullptr;      // [row][stride] of the prior
  const float* precision = nullptr;  // [n_columns][stride] of the prior
  const float* reach = nullptr;      // [n_basis] the largest factor of any other; null: of those that a row rated
  int64_t longest = 0;               // the most ratings of a row, wherever they lie
  int n_steps = 0;
  const float* noise = nullptr;     // [row][stride] standard normal; null: no draw
  const float* luck = nullptr;      // [row] logarithms of uniform numbers
  double* row_objective = nullptr;  // one per row: log-posterior after the move
  double* spread =
      nullptr;  // [n_columns][n_columns] sum over rows of the inverse curvature before the steps; may be null
  int64_t* accepted = nullptr;  // draws accepted
};

// What ratings say of rows of the ordinal model, to be added up with what those say that lie elsewhere: exactly, since
// these are whole numbers of units that follow from reach and longest.
struct OrdinalLook {
  OrdinalPass pass;                            // its rows are those asked about, one after the other
  const int64_t* which = nullptr;              // [asked] the row of the side that each of them is
  double* loglik = nullptr;                    // [asked]
  int32_t *slope = nullptr, *curve = nullptr;  // [asked][column], [asked][upper triangle]; null: not wanted
};

// What sums over all ratings, and the prior, make of rows of the ordinal model.
struct OrdinalAim {
  OrdinalPass pass;  // rows, prior, noise; row_objective and spread are written
  const double* loglik = nullptr;
  const int32_t *slope = nullptr, *curve = nullptr;  // null: only row_objective is wanted
  float* step = nullptr;                             // [row][stride] Newton's
  double *promise = nullptr, *size = nullptr;  // [row] what the gradient says of the step; log root of the curvature
  float* kick = nullptr;                       // [row][stride] noise with the inverse of the curvature as covariance
  const float* origin = nullptr;               // [row][stride] where rows came from; null: nobody asks for
  double* back = nullptr;                      // [row] its squared distance from the end of the step
};

// The gradient of the log-likelihood of rows of the ordinal model while those of the other side stand still. Only the
// first two basis functions have factors, and those in whole fours; rows may be read a few floats past their end.
struct OrdinalSlopes {
  const int64_t* indptr = nullptr;
  const int32_t* other = nullptr;
  const int8_t* score = nullptr;
  const float *rows = nullptr, *others = nullptr;
  int stride = 0, n_scores = 0, n_basis = 0;
  const int* ranks = nullptr;
  const float* base = nullptr;
  const float* basis = nullptr;
  bool is_far = false;        // the other side is too large for the nearer caches
  float* slopes = nullptr;    // [row][stride]
  double* loglik = nullptr;   // what it adds up to, added to what there is; null: nobody asks
  double* squares = nullptr;  // [n_basis] likewise, of the pulls along the basis functions
};

// A step of rows along their slopes, drawn towards what their prior expects, by a heavy ball.
struct OrdinalGlide {
  const int64_t* indptr = nullptr;
  int stride = 0, n_features = 0;
  float *rows = nullptr, *velocity = nullptr;  // [row][stride]
  const float* slopes = nullptr;               // [row][stride]
  const float* features = nullptr;             // [row][n_features]
  const float* weights = nullptr;              // [n_features][stride]
  const float* precision = nullptr;            // [stride][stride]
  const float* bend = nullptr;                 // [stride] curvature that a rating adds
  const float* doubt = nullptr;  // [stride] the part of it that is due to how little is known of the others
  float length = 1, memory = 0;
  double* price = nullptr;    // of the rows before the step, under the prior and for the doubt
  double* moments = nullptr;  // [3][stride] after it: n x^2, n / h and 1 / h, added up over rows
};

struct OrdinalQuestion {  // probabilities of pairs, averaged over draws
  const int32_t *user = nullptr, *item = nullptr;
  const float *P = nullptr, *Q = nullptr;  // [row][n_columns][n_draws]
  int n_columns = 0, n_scores = 0, n_basis = 0;
  int64_t n_draws = 0;             // a multiple of 16
  const float* weights = nullptr;  // [n_draws], zero for padding
  const int* ranks = nullptr;
  const float* base = nullptr;
  const float* basis = nullptr;
  float* out = nullptr;  // [pair][n_scores]
};

constexpr int tile_items = 16;  // items that are ranked at a time

struct Sieve {  // the last entry of a list, and what it takes to be better
  int n_scores = 0;
  const float* values = nullptr;  // [n_scores] the scores
  const float* place = nullptr;   // [n_scores] the same on a scale from -1 to 1
  float centering = 0;            // 0: near ties stand
  float mode = -1, mean = 0;      // of the last entry, as the place of a score, and a hair less
  float reliability = -1;         // the least, and a hair less
};

// Functions by name. They are references, so that a table that leaves one out does not compile.
struct Kernels {
  const char* isa;
  int64_t (&scratch_floats)(const Pass&);  // per thread
  void (&resbemf_exact)(const Pass&, int64_t begin, int64_t end, float* scratch);
  void (&resbemf_gradient)(const Pass&, int64_t begin, int64_t end, float* scratch);
  void (&bemf_gradient)(const Pass&, int64_t begin, int64_t end, float* scratch);
  void (&dirmf_sgd)(const Pass&, int64_t begin, int64_t end, float* scratch);
  void (&point_sgd)(const PointPass&, int64_t begin, int64_t end);
  void (&proba)(const Question&, int64_t begin, int64_t end);
  int64_t (&ordinal_scratch_floats)(const OrdinalPass&);
  void (&ordinal_rows)(const OrdinalPass&, int64_t begin, int64_t end, float* scratch);
  void (&ordinal_proba)(const OrdinalQuestion&, int64_t begin, int64_t end);
  void (&tile_of_scores)(const Question&, const float* const* rows, int n_users, int64_t tile, float* out);
  void (&tile_of_draws)(const OrdinalQuestion&, const float* const* rows, int n_users, int64_t tile,
                        const uint32_t* wanted, float* out);
  uint32_t (&tile_of_values)(const float* row, const float* Q, int n_columns, bool biased, float mean, int64_t tile,
                             float least);
  uint32_t (&sieve)(const Sieve&, const float* probs);
  int64_t (&ordinal_slopes_scratch)(const OrdinalSlopes&);  // floats per thread, beginning with a cache line
  void (&ordinal_slopes)(const OrdinalSlopes&, int64_t begin, int64_t end, float* scratch);
  void (&ordinal_glide)(const OrdinalGlide&, int64_t begin, int64_t end);
  void (&ordinal_sums)(const OrdinalGlide&, int64_t begin, int64_t end, double* sums);
  void (&resbemf_look)(const ScoreLook&, int64_t begin, int64_t end, float* scratch);
  void (&resbemf_aim)(const ScoreAim&, int64_t begin, int64_t end, float* scratch);
  void (&ordinal_look)(const OrdinalLook&, int64_t begin, int64_t end, float* scratch);
  void (&ordinal_aim)(const OrdinalAim&, int64_t begin, int64_t end, float* scratch);
  int64_t (&squares_scratch_floats)(const PointSquares&);
  void (&squares_meet)(const PointSquares&, int64_t begin, int64_t end, float* scratch);
  void (&squares_solve)(const PointSquares&, int64_t begin, int64_t end, float* scratch);
};

constexpr int max_scores = 64;
constexpr int max_planes = 1 << 20;  // factors and biases of a row: times a few scores or lanes, they still fit an int

// Factors of ResBeMF that are solved for together. The curvature of a block costs its square per rating, so a bound on
// it keeps a round linear in the number of factors.
constexpr int max_block = 8;
STARCAST_ALWAYS_INLINE int blocks_of(int n_factors) {
  return n_factors > max_block ? (n_factors + max_block - 1) / max_block : 1;
}
// The first factor of a block; that of the block after the last is their number.
STARCAST_ALWAYS_INLINE int block_begin(int n_factors, int block) {
  return static_cast<int>(int64_t{n_factors} * block / blocks_of(n_factors));
}
constexpr int max_columns = 1024;  // of the ordinal model in gradient rounds

const Kernels& kernels();  // the set chosen for this machine (dispatch.cpp)

}  // namespace starcast
