#include "serving/piece_runner.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "decoding/stream_state.h"

namespace sluice::serving {

using runtime::DType;
using runtime::Shape;

struct PieceRunner::Bucket {
  std::int64_t rows = 0;
  std::unique_ptr<models::TrainingPlan> plan;
  models::PartPlan* parts = nullptr;
  runtime::Arena arena;
  runtime::Slot source, lengths, starts, slots;

  Tensor index(const runtime::Slot& slot) const {
    return arena.tensor(slot, DType::kInt32, {rows});
  }
};

namespace {

/// Refuses before any memory is taken.
const PieceRuns::Capacity& checked(const PieceRuns::Capacity& capacity,
                                   const kernels::recurrent::Descriptor& stack,
                                   std::string_view refusal) {
  if (!refusal.empty()) {
    base::fail(ErrorCode::kUnsupported, "sequences can't run in pieces: {}", refusal);
  }
  if (stack.directions != 1) {
    base::fail(ErrorCode::kUnsupported,
               "sequences can't run in pieces: the model is bidirectional, so its first answer "
               "depends on the last step");
  }
  SLUICE_CHECK(capacity.slots >= 1 && capacity.rows >= 1 && capacity.time >= 1,
               "{} slots, {} rows and {} steps are no capacity; each must be 1 or more",
               capacity.slots, capacity.rows, capacity.time);
  // The slot pool has one slot more.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1;
  SLUICE_CHECK(capacity.slots <= kMost && capacity.rows <= kMost && capacity.time <= kMost,
               "{} slots, {} rows and {} steps are too many; each may be {} at most",
               capacity.slots, capacity.rows, capacity.time, kMost);
  return capacity;
}

}  // namespace

PieceRunner::PieceRunner(const Context& context, const models::Model& model,
                         const kernels::recurrent::Descriptor& stack, std::int64_t features,
                         const Capacity& capacity, std::string_view refusal)
    : model_(model),
      features_(features),
      capacity_(checked(capacity, stack, refusal)),
      pool_(context, stack, model.parameters().storage(context), capacity.slots),
      from_(context, stack, model.parameters().storage(context), capacity.rows),
      to_(context, stack, model.parameters().storage(context), capacity.rows) {
  // Finds out whether the model has PartPlans. state() and set_state() need this plan as well.
  bucket_of(context, 1);
}

PieceRunner::~PieceRunner() = default;

PieceRunner::Bucket& PieceRunner::bucket_of(const Context& context, std::int64_t pieces) {
  const auto rows = std::min(
      capacity_.rows, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(pieces))));
  std::unique_ptr<Bucket>& bucket = buckets_[rows];
  if (bucket) return *bucket;
  auto made = std::make_unique<Bucket>();
  made->rows = rows;
  runtime::ArenaPlanner planner(weights_);
  const std::int64_t time = capacity_.time;
  made->source = features_ == 0 ? planner.saved(DType::kInt32, {time, rows})
                                : planner.saved(DType::kFloat32, {time, rows, features_});
  made->lengths = planner.saved(DType::kInt32, {rows});
  made->starts = planner.saved(DType::kInt32, {rows});
  made->slots = planner.saved(DType::kInt32, {rows});
  made->plan = model_.training_plan(context, planner, {rows, time, time}, false);
  made->parts = dynamic_cast<models::PartPlan*>(made->plan.get());
  if (made->parts == nullptr) {
    base::fail(ErrorCode::kUnsupported,
               "sequences can't run in pieces: a {} model reads whole sequences only",
               model_.kind());
  }
  made->arena = runtime::Arena(context.device(), planner);
  made->parts->pack(context, made->arena);
  bucket = std::move(made);
  return *bucket;
}

// Rows without a piece have no steps, start from zero and leave zero there.
void PieceRunner::upload(const Context& context, const Bucket& bucket,
                         std::span<const Piece> pieces, std::int64_t time) const {
  const auto rows = static_cast<std::size_t>(bucket.rows);
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(features_, 1));
  std::vector<std::int32_t> lengths(rows), starts(rows, pool_.zero()), slots(rows, pool_.zero());
  std::vector<float> frames;
  std::vector<std::int32_t> tokens;
  (features_ == 0 ? tokens.resize(static_cast<std::size_t>(time) * rows)
                  : frames.resize(static_cast<std::size_t>(time) * rows * width));
  for (std::size_t row = 0; row < pieces.size(); ++row) {
    const Piece& piece = pieces[row];
    lengths[row] = static_cast<std::int32_t>(piece.steps);
    slots[row] = piece.slot;
    if (!piece.first) starts[row] = piece.slot;
    for (std::size_t t = 0; t < static_cast<std::size_t>(piece.steps); ++t) {
      if (features_ == 0) {
        tokens[t * rows + row] = piece.tokens[t];
      } else {
        std::ranges::copy(piece.frames.subspan(t * width, width),
                          frames.begin() + static_cast<std::ptrdiff_t>((t * rows + row) * width));
      }
    }
  }
  if (features_ == 0) {
    context.upload<std::int32_t>(
        bucket.arena.tensor(bucket.source, DType::kInt32, {time, bucket.rows}), tokens);
  } else {
    context.upload<float>(
        bucket.arena.tensor(bucket.source, DType::kFloat32, {time, bucket.rows, features_}),
        frames);
  }
  context.upload<std::int32_t>(bucket.index(bucket.lengths), lengths);
  context.upload<std::int32_t>(bucket.index(bucket.starts), starts);
  context.upload<std::int32_t>(bucket.index(bucket.slots), slots);
}

std::vector<PieceAnswer> PieceRunner::run(const Context& context, std::span<const Piece> pieces) {
  if (pieces.empty()) return {};
  SLUICE_CHECK(std::ssize(pieces) <= capacity_.rows, "{} pieces don't fit a runner for {}",
               pieces.size(), capacity_.rows);
  std::int64_t time = 1;
  for (const Piece& piece : pieces) {
    const bool fits = features_ == 0 ? std::ssize(piece.tokens) == piece.steps
                                     : std::ssize(piece.frames) == piece.steps * features_;
    SLUICE_CHECK(piece.steps >= 0 && piece.steps <= capacity_.time && fits && piece.slot >= 0 &&
                     piece.slot < capacity_.slots,
                 "a piece of {} steps in slot {} doesn't fit a runner for {} steps and {} slots",
                 piece.steps, piece.slot, capacity_.time, capacity_.slots);
    time = std::max(time, piece.steps);
  }
  const Bucket& bucket = bucket_of(context, std::ssize(pieces));
  upload(context, bucket, pieces, time);
  models::Batch part;
  part.extent = {bucket.rows, time, 0};
  part.source =
      features_ == 0
          ? bucket.arena.tensor(bucket.source, DType::kInt32, {time, bucket.rows})
          : bucket.arena.tensor(bucket.source, DType::kFloat32, {time, bucket.rows, features_});
  part.source_lengths = bucket.index(bucket.lengths);
  const models::StackStates from = from_.view(bucket.rows), to = to_.view(bucket.rows);
  pool_.load(context, bucket.index(bucket.starts), from);
  const Tensor answers = bucket.parts->run_part(context, bucket.arena, part, from, to);
  pool_.store(context, to, bucket.index(bucket.slots));
  return download(context, answers, pieces);
}

Tensor PieceRunner::index_of(const Context& context, std::int32_t slot) {
  SLUICE_ASSERT(slot >= 0 && slot < capacity_.slots);
  const Bucket& bucket = bucket_of(context, 1);
  const Tensor index = bucket.index(bucket.slots);
  context.upload<std::int32_t>(index, {&slot, 1});
  return index;
}

io::TensorTable PieceRunner::state(const Context& context, std::int32_t slot) {
  pool_.load(context, index_of(context, slot), from_.view(1));
  return decoding::download_state(context, from_.state());
}

void PieceRunner::set_state(const Context& context, std::int32_t slot,
                            const io::TensorTable& state) {
  decoding::upload_state(context, from_.state(), state);
  pool_.store(context, from_.view(1), index_of(context, slot));
}

// `answers` is [time, rows, ...].
std::vector<PieceAnswer> PieceRunner::download(const Context& context, const Tensor& answers,
                                               std::span<const Piece> pieces) const {
  std::vector<PieceAnswer> found(pieces.size());
  const auto split = [&]<typename T>(std::vector<T> PieceAnswer::*member) {
    const std::vector<T> all = context.download<T>(answers);
    const std::int64_t rows = answers.size(1);
    const std::int64_t width = std::ssize(all) / (answers.size(0) * rows);
    for (std::size_t row = 0; row < pieces.size(); ++row) {
      std::vector<T>& own = found[row].*member;
      own.reserve(static_cast<std::size_t>(pieces[row].steps * width));
      for (std::int64_t t = 0; t < pieces[row].steps; ++t) {
        const auto first = all.begin() + (t * rows + static_cast<std::int64_t>(row)) * width;
        own.insert(own.end(), first, first + width);
      }
    }
  };
  if (answers.dtype() == DType::kInt32) {
    split(&PieceAnswer::labels);
  } else {
    split(&PieceAnswer::values);
  }
  return found;
}

}  // namespace sluice::serving
